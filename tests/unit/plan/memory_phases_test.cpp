// What each phase of a run uses of the memory that a rank holds.
// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_phases.hpp"

#include <gtest/gtest.h>

#include "plan/memory_room.hpp"
#include "small_deck.hpp"

namespace trireme::plan {
namespace {

config::RunConfig deck(const std::vector<std::string>& overrides = {}, int ranks = 2) {
  return small_deck(overrides, ranks);
}

Plan planned(const std::vector<std::string>& overrides = {}) {
  return make_plan(deck(overrides), 0);
}

std::int64_t used(const Plan& plan, MemoryPhase phase, MemoryClass c) {
  return plan.used[static_cast<std::size_t>(phase)][static_cast<std::size_t>(c)];
}
std::int64_t held(const Plan& plan, MemoryClass c) {
  return plan.memory[static_cast<std::size_t>(c)];
}

TEST(MemoryPhases, ActivationsAndGradientsAreOfTheStepAlone) {
  const Plan plan = planned({"metrics.validate_every=10"});
  using enum MemoryPhase;
  for (const MemoryClass c : all_memory_classes)
    for (const MemoryPhase p : {start, compute, update, validation, checkpoint})
      EXPECT_LE(used(plan, p, c), held(plan, c)) << name_of(p) << " " << name_of(c);
  EXPECT_EQ(used(plan, compute, MemoryClass::activations),
            held(plan, MemoryClass::activations));
  EXPECT_EQ(used(plan, compute, MemoryClass::gradients),
            held(plan, MemoryClass::gradients));
  EXPECT_EQ(used(plan, update, MemoryClass::gradients),
            held(plan, MemoryClass::gradients));
  for (const MemoryPhase p : {start, update, checkpoint})
    EXPECT_EQ(used(plan, p, MemoryClass::activations), 0) << name_of(p);
  for (const MemoryPhase p : {start, validation, checkpoint})
    EXPECT_EQ(used(plan, p, MemoryClass::gradients), 0) << name_of(p);
  // What the next step goes on from is needed all the time.
  for (const MemoryPhase p : {start, compute, update, validation, checkpoint})
    for (const MemoryClass c : {MemoryClass::weights, MemoryClass::optimizer})
      EXPECT_EQ(used(plan, p, c), held(plan, c)) << name_of(p) << " " << name_of(c);
  EXPECT_EQ(peak_phase(plan.used, all_memory_classes), compute);
}

// An evaluation takes one microbatch at a time, and no gradients of activations.
TEST(MemoryPhases, ValidationTakesLessThanAStepAndNothingWhereThereIsNone) {
  using enum MemoryPhase;
  const Plan plan = planned({"metrics.validate_every=10"});
  const std::int64_t of_step = used(plan, compute, MemoryClass::activations),
                     evaluated = used(plan, validation, MemoryClass::activations);
  EXPECT_GT(evaluated, 0);
  EXPECT_LT(evaluated, of_step);
  const Plan stage = planned(
      {"metrics.validate_every=10", "parallel.pipeline=2", "parallel.schedule=1f1b"});
  EXPECT_GT(used(stage, validation, MemoryClass::activations), 0);
  EXPECT_LE(2 * used(stage, validation, MemoryClass::activations),
            used(stage, compute, MemoryClass::activations));
  EXPECT_GT(used(plan, validation, MemoryClass::data),
            used(plan, compute, MemoryClass::data));
  const Plan without = planned();
  for (const MemoryClass c : all_memory_classes)
    EXPECT_EQ(used(without, validation, c), 0) << name_of(c);
}

TEST(MemoryPhases, WhatIsGatheredOrOpenedIsOfForwardAndBackward) {
  using enum MemoryPhase;
  const Plan plan = planned({"parallel.sharding_strategy=FULL_SHARD"});
  for (const MemoryClass c : {MemoryClass::weights, MemoryClass::gradients}) {
    EXPECT_EQ(used(plan, compute, c), held(plan, c)) << name_of(c);
    EXPECT_LT(used(plan, update, c), held(plan, c)) << name_of(c);
    EXPECT_GT(used(plan, update, c), 0) << name_of(c);
  }
}

TEST(MemoryPhases, CopiesForCheckpointsAreUsedBesideTheStepsThatFollow) {
  using enum MemoryPhase;
  const Plan plan = planned({"checkpoint.async=true", "checkpoint.every=10"});
  const std::int64_t copies = held(plan, MemoryClass::offloaded);
  EXPECT_GT(copies, 0);
  EXPECT_EQ(used(plan, checkpoint, MemoryClass::offloaded), copies);
  EXPECT_EQ(used(plan, compute, MemoryClass::offloaded), copies);
  EXPECT_EQ(used(plan, start, MemoryClass::offloaded), 0);
}

TEST(MemoryPhases, WhatPassesThroughTheHostIsOfTheUpdate) {
  using enum MemoryPhase;
  const Plan plan = planned({"parallel.offload=optimizer"});
  const std::int64_t all = held(plan, MemoryClass::offloaded);
  EXPECT_EQ(used(plan, update, MemoryClass::offloaded), all);
  EXPECT_LT(used(plan, compute, MemoryClass::offloaded), all);
  EXPECT_GT(used(plan, compute, MemoryClass::offloaded), 0);
}

TEST(MemoryPhases, TheTableMarksThePeakOfItsClasses) {
  ClassBytes all{};
  PhaseBytes bytes{};
  const auto set = [&](MemoryPhase p, MemoryClass c, std::int64_t value) {
    bytes[static_cast<std::size_t>(p)][static_cast<std::size_t>(c)] = value;
    auto& of_class = all[static_cast<std::size_t>(c)];
    of_class = std::max(of_class, value);
  };
  set(MemoryPhase::compute, MemoryClass::activations, 100);
  set(MemoryPhase::update, MemoryClass::offloaded, 300);
  set(MemoryPhase::update, MemoryClass::weights, 10);
  EXPECT_EQ(peak_phase(bytes, all_memory_classes), MemoryPhase::update);
  const std::array here = {MemoryClass::weights, MemoryClass::activations};
  EXPECT_EQ(peak_phase(bytes, here), MemoryPhase::compute);
  EXPECT_EQ(phase_table(all, bytes, here, 2),
            "  class         held  forward, backward (peak)  update\n"
            "  weights       10 B                         -    10 B\n"
            "  activations  100 B                     100 B       -\n"
            "  in all       110 B                     100 B    10 B\n");
}

TEST(MemoryPhases, AreInThePlanAndInTheRefusal) {
  const config::RunConfig config = deck();
  const std::vector<Plan> plans = plan_stages(config);
  const std::string table =
      phase_table(plans[0].memory, plans[0].used, all_memory_classes, 10);
  EXPECT_NE(describe(config, plans).find(table), std::string::npos);
  const std::string why = why_no_room(config, plans, {}, {1000, "a test"},
                                      [](const std::string&) { return std::nullopt; });
  EXPECT_NE(why.find("on stage 0, most in 'forward, backward'"), std::string::npos)
      << why;
  EXPECT_NE(why.find(phase_table(plans[0].memory, plans[0].used, all_memory_classes, 2)),
            std::string::npos)
      << why;
}

}  // namespace
}  // namespace trireme::plan
