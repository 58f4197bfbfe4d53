// Rules about steps that are computed twice or passed over, broken one by one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

const std::vector<Case> cases = {
    {{"debug.fault=flip_gradient@1@0", "run.device=cuda"},
     1,
     {"debug.fault = \"flip_gradient@1@0\"", "run.device = \"cuda\""}},
    {{"health.rerun_every=5", "run.device=cuda"},
     1,
     {"health.rerun_every = 5", "run.device = \"cuda\"", "health.rerun_every = 0"}},
    {{"health.rerun_every=5", "precision.error_feedback=true",
      "precision.gradient_reduce=bf16"},
     1,
     {"health.rerun_every = 5", "precision.error_feedback = true"}},
    {{"data.skip_steps=[\"3-2\"]"}, 1, {"data.skip_steps", "\"3-2\"", "1200-1210"}},
    {{"data.skip_steps=[\"3\", \"9-11\"]"},
     1,
     {"data.skip_steps", "a step after run.steps = 10"}},
    {{"data.skip_steps=[\"3-5\"]", "debug.dump_gradients=[4]"},
     1,
     {"debug.dump_gradients = [4]", "data.skip_steps"}},
    {{"data.skip_steps=[\"3-5\"]", "metrics.profile=4-6"},
     1,
     {"metrics.profile = \"4-6\" begins with a step that nothing is done in"}},
    {{"data.skip_steps=[\"3-5\"]", "debug.fault=kill@4@0"},
     1,
     {"debug.fault = \"kill@4@0\" names a step that nothing is done in"}},
};

TEST(RunConfigHealth, EachRuleBroken) {
  for (const auto& wrong : cases) expect_one_problem(wrong);
}

}  // namespace
}  // namespace trireme::test
