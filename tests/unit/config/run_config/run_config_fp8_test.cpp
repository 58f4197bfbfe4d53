// Rules about products in FP8: each names the key that is the cause, and what it advises
// is accepted.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

using Words = std::vector<std::string>;

// `base` has one problem, which says all of `says`; with `fix`, which it
// advises, it has none.
void expect_mended(Words base, const Words& says, const Words& fix, int ranks = 1) {
  expect_one_problem({base, ranks, says});
  base.insert(base.end(), fix.begin(), fix.end());
  SCOPED_TRACE(joined(base));
  const auto [message, status] =
      error_of([&] { config::make_run_config(parse_sample(base), ranks); });
  EXPECT_EQ(status, Status::done) << message;
}

// The experts' own width fits; the shared expert's does not.
TEST(RunConfigFp8, TheSharedExpertHasAWidthOfItsOwn) {
  const Words base = {"model.architecture=qwen2_moe", "model.moe.experts=4",
                      "model.moe.expert_feed_forward=32",
                      "model.moe.shared_feed_forward=8", "precision.compute=fp8"};
  expect_mended(base,
                {"command line: model.moe.shared_feed_forward = 8 must be a multiple of "
                 "16 with precision.compute = \"fp8\": write "
                 "model.moe.shared_feed_forward = 16"},
                {"model.moe.shared_feed_forward=16"});
  Words experts = base;
  experts[2] = "model.moe.expert_feed_forward=24";
  experts[3] = "model.moe.shared_feed_forward=0";
  expect_mended(experts, {"write model.moe.expert_feed_forward = 32"},
                {"model.moe.expert_feed_forward=32"});
}

}  // namespace
}  // namespace trireme::test
