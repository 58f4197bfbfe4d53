// Rules about checkpoints that are kept and steps that are profiled, broken one by one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

const std::vector<Case> cases = {
    {{"checkpoint.keep=0", "checkpoint.keep_every=10"},
     1,
     {"checkpoint.keep_every = 10", "checkpoint.keep = 0"}},
    {{"checkpoint.keep_best=1", "checkpoint.every=2"},
     1,
     {"checkpoint.keep_best = 1", "metrics.validate_every = 0"}},
    {{"checkpoint.keep_best=2", "checkpoint.every=3", "metrics.validate_every=4",
      "data.validation_paths=[\"a\"]"},
     1,
     {"checkpoint.keep_best = 2", "run.steps = 10", "checkpoint.every = 3",
      "a multiple of metrics.validate_every"}},
    {{"metrics.profile=4-2"},
     1,
     {"metrics.profile: \"4-2\" ends before it begins", "write \"2-4\""}},
    {{"metrics.profile=8-11"}, 1, {"metrics.profile = \"8-11\"", "run.steps = 10"}},
    {{"metrics.profile=1-2@0,2"},
     2,
     {"names rank 2", "write ranks below 2"},
     Status::resources},
};

TEST(OutputRules, EachRuleBroken) {
  for (const Case& wrong : cases) expect_one_problem(wrong);
}

}  // namespace
}  // namespace trireme::test
