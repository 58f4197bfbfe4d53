// Plans of stages: those of the tensor ranks that hold most.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/plan.hpp"
#include "small_deck.hpp"

namespace trireme::plan {
namespace {

using Words = std::vector<std::string>;

config::RunConfig uneven(int tensor, const Words& more) {
  Words words = {"model.hidden=96",       "model.vocabulary=131",
                 "model.feed_forward=97", "model.head_width=64",
                 "model.sequence=16",     format("parallel.tensor={}", tensor)};
  words.insert(words.end(), more.begin(), more.end());
  return small_deck(words, 2 * tensor);
}

// Whatever tensor ranks do not divide.
TEST(StagePlans, AreOfTheTensorRanksThatHoldMost) {
  struct Case {
    int tensor, heads, kv_heads, rank;
  };
  for (const auto& [tensor, heads, kv_heads, rank] :
       {Case{3, 6, 2, 1}, Case{5, 10, 2, 2}, Case{6, 12, 4, 1}, Case{4, 12, 6, 0},
        Case{3, 6, 3, 0}, Case{3, 6, 1, 0}, Case{2, 6, 3, 0}}) {
    for (const char* axis : {"parallel.pipeline=2", "parallel.sharding_strategy=ZERO1"}) {
      SCOPED_TRACE(format("{} {} {} {}", tensor, heads, kv_heads, axis));
      const auto config = uneven(tensor, {axis, format("model.heads={}", heads),
                                          format("model.kv_heads={}", kv_heads)});
      const std::vector<Plan> plans = plan_stages(config);
      const int stages = config.parallel.mesh.pipeline, ranks = 2 * tensor / stages;
      ASSERT_EQ(std::ssize(plans), stages);
      EXPECT_EQ(plans[0].rank, rank);
      for (int stage = 0; stage < stages; ++stage) {
        std::int64_t most = 0;
        for (int r = stage * ranks; r < (stage + 1) * ranks; ++r)
          most = std::max(most, make_plan(config, r).total_memory());
        EXPECT_EQ(plans[static_cast<std::size_t>(stage)].total_memory(), most) << stage;
      }
      EXPECT_NE(describe(config, plans).find(format(" on rank {}:", rank)),
                std::string::npos);
    }
  }
}

}  // namespace
}  // namespace trireme::plan
