// Words of the deck: each stands for what its name says.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "config/keys.hpp"
#include "io/deck_value.hpp"
#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

using config::RunConfig;

RunConfig read_with(const std::string& overrides) {
  return config::read_run_config(parse_sample({overrides}), 1, 1);
}

TEST(DeckWords, SchedulesHaveTheirOwnNames) {
  for (const auto& word : io::split_choices(config::key::parallel.schedule.choices))
    EXPECT_EQ(schedule::name_of(read_with("parallel.schedule=" + word).parallel.schedule),
              word);
}

TEST(DeckWords, NoTwoStandForTheSame) {
  std::set<optim::DecayStyle> decays;
  for (const auto& word : io::split_choices(config::key::schedule.name.choices))
    decays.insert(read_with("optimizer.schedule.name=" + word).optimizer.schedule.kind);
  EXPECT_EQ(decays.size(), 4u);
  std::set<model::Architecture> architectures;
  const auto names = io::split_choices(config::key::model.architecture.choices);
  for (const auto& word : names)
    architectures.insert(read_with("model.architecture=" + word).model.architecture);
  EXPECT_EQ(architectures.size(), names.size());
  std::set<optim::Offload> offloads;
  for (const auto& word : io::split_choices(config::key::parallel.offload.choices))
    offloads.insert(read_with("parallel.offload=" + word).parallel.offload);
  EXPECT_EQ(offloads.size(), 5u);
}

TEST(DeckWords, StrategiesShareOutWhatTheySay) {
  const auto sharding = [](const std::string& word) {
    return read_with("parallel.sharding_strategy=" + word).parallel.sharding;
  };
  EXPECT_EQ(sharding("NO_SHARD"), optim::Sharding::none);
  EXPECT_EQ(sharding("ZERO1"), optim::Sharding::optimizer);
  EXPECT_EQ(sharding("SHARD_GRAD_OP"), optim::Sharding::gradients);
  EXPECT_EQ(sharding("FULL_SHARD"), optim::Sharding::weights);
  EXPECT_EQ(sharding("HYBRID_SHARD"), optim::Sharding::weights);
}

TEST(DeckWords, TypesOfAClassAreThoseOfTheirNames) {
  const io::Deck deck =
      parse_sample({"precision.moments=fp8", "precision.master=bf16",
                    "precision.gradient_reduce=fp16", "precision.weights=fp64"});
  EXPECT_EQ(deck[config::key::precision.moments],
            (Precision{DType::e4m3, Scaling::current}));
  EXPECT_EQ(deck[config::key::precision.master], Precision{DType::bf16});
  EXPECT_EQ(deck[config::key::precision.gradient_reduce], Precision{DType::f16});
  EXPECT_EQ(deck[config::key::precision.weights], Precision{DType::f64});
  EXPECT_EQ(parse_sample()[config::key::precision.weights], std::nullopt);
}

TEST(DeckWords, ReactionsToASpike) {
  using Reaction = config::StepRules::Reaction;
  EXPECT_EQ(read_with("health.spike=off").health.steps.spike, Reaction::off);
  EXPECT_EQ(read_with("health.spike=skip").health.steps.spike, Reaction::skip);
  EXPECT_EQ(read_with("health.spike=stop").health.steps.spike, Reaction::stop);
  EXPECT_EQ(read_with("health.nan=skip").health.steps.nan, Reaction::skip);
  EXPECT_EQ(read_with("health.nan=stop").health.steps.nan, Reaction::stop);
}

}  // namespace
}  // namespace trireme::test
