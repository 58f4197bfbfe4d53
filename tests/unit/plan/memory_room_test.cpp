// The refusal of a deck that does not fit: what it says, and that its numbers are plans.
// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_room.hpp"

#include <gtest/gtest.h>

#include "small_deck.hpp"

namespace trireme::plan {
namespace {

config::RunConfig deck(const std::vector<std::string>& overrides = {}) {
  return small_deck(overrides, 2);
}

std::optional<config::RunConfig> changed(const std::string& override) {
  try {
    return deck({override});
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string refusal(double room) {
  const std::vector<Plan> plans = plan_stages(deck());
  return why_no_room(deck(), plans, {}, {room, "a test"}, changed);
}

double needed() { return device_bytes(plan_stages(deck()).front(), {}); }

// Enough for the program and four fifths of the rest.
double scant_room() {
  const Plan plan = plan_stages(deck()).front();
  const auto program = static_cast<double>(plan.program_bytes);
  EXPECT_GT(program, 0);
  return program + 0.8 * (needed() - program);
}

TEST(MemoryRoom, SaysNothingWhereADeckFitsOrNothingIsKnown) {
  EXPECT_EQ(refusal(needed()), "");
  EXPECT_EQ(refusal(0), "");
}

TEST(MemoryRoom, NamesTheClassesAndTwoChangesThatFit) {
  const std::string why = refusal(scant_room());
  for (const char* word : {"does not fit", "a test", "weights", "activations", "program",
                           "in all", "stage 0 (most)", "which fits"})
    EXPECT_NE(why.find(word), std::string::npos) << word << "\n" << why;
  // Each line of a change says what the plan of the changed deck says.
  int changes = 0;
  for (const std::string& name : memory_changes(deck())) {
    const auto at = why.find("  " + name + ": ");
    if (at == std::string::npos) continue;
    ++changes;
    const auto config = changed(name);
    ASSERT_TRUE(config.has_value()) << name;
    double most = 0;
    for (const Plan& plan : plan_stages(*config))
      most = std::max(most, device_bytes(plan, {}));
    const std::string line = why.substr(at, why.find('\n', at) - at);
    EXPECT_NE(line.find(human_bytes(most) + " a rank"), std::string::npos) << line;
    EXPECT_NE(line.find(human_bytes(needed() - most) + " less"), std::string::npos)
        << line;
    EXPECT_LE(most, scant_room()) << line;
  }
  EXPECT_EQ(changes, 2) << why;
}

TEST(MemoryRoom, SaysWhenNoChangeOfOneKeyIsEnough) {
  const std::string why = refusal(1000);
  EXPECT_NE(why.find("which is not enough"), std::string::npos) << why;
  EXPECT_NE(why.find("more ranks"), std::string::npos) << why;
}

TEST(MemoryRoom, AGpuHasNoRoomForWhatIsOffloadedToTheHostAndNeedsNone) {
  Plan plan;
  plan.memory[static_cast<std::size_t>(MemoryClass::weights)] = 100;
  plan.memory[static_cast<std::size_t>(MemoryClass::offloaded)] = 900;
  plan.memory[static_cast<std::size_t>(MemoryClass::data)] = 100;
  plan.program_bytes = 10000;
  EXPECT_EQ(device_bytes(plan, {}), 11100);
  plan.program_bytes = 0;
  PlannedDevice gpu;
  gpu.device = Device::cuda(0);
  EXPECT_EQ(device_bytes(plan, gpu), 100);
  EXPECT_EQ(host_bytes(plan, gpu), 1000);
  EXPECT_EQ(host_bytes(plan, {}), 0);
}

// They are known once they are read, and no change of a key makes them smaller.
TEST(MemoryRoom, CountsTheTokensOfTextsWhereTheyLie) {
  std::vector<Plan> plans = plan_stages(deck());
  const double without = needed();
  plans.front().source_bytes = 1000000;
  EXPECT_EQ(device_bytes(plans.front(), {}), without + 1000000);
  EXPECT_EQ(why_no_room(deck(), plans, {}, {without + 1000000, "a test"}, changed), "");
  const std::string why =
      why_no_room(deck(), plans, {}, {without + 999999, "a test"}, changed);
  EXPECT_NE(why.find("tokens and documents"), std::string::npos) << why;
  EXPECT_NE(why.find("which fits"), std::string::npos) << why;
  const std::string beyond = why_no_room(deck(), plans, {}, {1000000, "a test"}, changed);
  EXPECT_EQ(beyond.find("which fits"), std::string::npos) << beyond;
  PlannedDevice gpu;
  gpu.device = Device::cuda(0);
  Plan plan;
  plan.source_bytes = 1000000;
  EXPECT_EQ(device_bytes(plan, gpu), 0);
  EXPECT_EQ(host_bytes(plan, gpu), 1000000);
}

// Beside GPUs the node has to hold what is offloaded.
TEST(MemoryRoom, JudgesTheNodesMemoryBesideGpus) {
  PlannedDevice gpu;
  gpu.device = Device::cuda(0);
  const config::RunConfig offloading = deck({"parallel.offload=optimizer"});
  const std::vector<Plan> plans = plan_stages(offloading, gpu);
  const MemoryNeed need = memory_need(plans, gpu);
  const double rest = memory_need(plan_stages(deck(), gpu), gpu).host;  // batches
  ASSERT_GT(need.host, rest);
  const auto change = [](const std::string& override) {
    return override == "parallel.offload=none" ? std::optional(deck({override}))
                                               : std::nullopt;
  };
  EXPECT_EQ(why_no_room(offloading, plans, gpu,
                        {2 * need.device, "a GPU", need.host, "a node"}, change),
            "");
  const std::string why =
      why_no_room(offloading, plans, gpu,
                  {2 * need.device, "a GPU", need.host - 1, "a node"}, change);
  for (const std::string& word :
       {std::string("of its node's memory, and has"), std::string("(a node)"),
        std::string("offloaded"),
        "parallel.offload=none: " + human_bytes(rest) + " a rank",
        human_bytes(need.host - rest) + " less", std::string("which fits")})
    EXPECT_NE(why.find(word), std::string::npos) << word << "\n" << why;
  // What fits the node but no longer the GPU is no way out.
  const std::string neither = why_no_room(
      offloading, plans, gpu, {need.device, "a GPU", need.host - 1, "a node"}, change);
  EXPECT_EQ(neither.find("which fits"), std::string::npos) << neither;
}

// What it had was as much as its plan: something else took the memory.
TEST(MemoryRoom, TellsWhatTakesLessThanADeckThatFits) {
  const std::string why =
      why_out_of_memory(deck(), plan_stages(deck()), {}, 2 * needed(), changed);
  EXPECT_NE(why.find("which fits"), std::string::npos) << why;
}

TEST(MemoryRoom, TellsWhatTakesLessThanARankHadWhenItFailed) {
  const std::vector<Plan> plans = plan_stages(deck());
  const std::string why = why_out_of_memory(deck(), plans, {}, scant_room(), changed);
  for (const std::string& word :
       {"is planned to need " + human_bytes(needed()), "had " + human_bytes(scant_room()),
        std::string("activations"), std::string("stage 0 (most)"),
        std::string("which fits")})
    EXPECT_NE(why.find(word), std::string::npos) << word << "\n" << why;
}

}  // namespace
}  // namespace trireme::plan
