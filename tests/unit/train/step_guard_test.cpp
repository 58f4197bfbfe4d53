// Which steps are sound.
// SPDX-License-Identifier: Apache-2.0
#include "train/step_guard.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme::train {
namespace {

using Reaction = config::StepRules::Reaction;
using Verdict = StepGuard::Verdict;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

// A loss around 3 with a deviation of exactly 0.5.
double usual(std::int64_t step) { return step % 2 == 0 ? 2.5 : 3.5; }

StepGuard guard_after(std::int64_t steps, const config::StepRules& rules) {
  StepGuard guard(rules);
  for (std::int64_t step = 1; step <= steps; ++step)
    EXPECT_EQ(guard.judge(step, usual(step), 1 + usual(step)).verdict, Verdict::sound);
  return guard;
}

TEST(StepGuard, NotFinite) {
  StepGuard stops((config::StepRules()));
  EXPECT_EQ(stops.judge(1, 2.0, 1.0).verdict, Verdict::sound);
  const auto judgement = stops.judge(2, nan, 1.0);
  EXPECT_EQ(judgement.verdict, Verdict::stop);
  EXPECT_EQ(judgement.reason, "loss nan and gradient norm 1 are not both finite");
  StepGuard skips({.nan = Reaction::skip});
  EXPECT_EQ(skips.judge(1, 1.0, infinity).verdict, Verdict::skip);
  EXPECT_EQ(skips.judge(2, 1.0, 1.0).verdict, Verdict::sound);
}

// Without clipping, squares of such a gradient do not fit into second moments.
TEST(StepGuard, NormBeyondTheRangeOfMoments) {
  StepGuard bare({.nan = Reaction::skip}), clipped({.clip = 1});
  EXPECT_EQ(bare.judge(1, 2.0, StepGuard::largest_norm).verdict, Verdict::sound);
  EXPECT_EQ(bare.judge(2, 2.0, 2 * StepGuard::largest_norm).verdict, Verdict::skip);
  EXPECT_EQ(clipped.judge(1, 2.0, 2 * StepGuard::largest_norm).verdict, Verdict::sound);
}

// A GPU that judges by limits() alone comes to the verdict of judge().
TEST(StepGuard, LimitsSayTheSameWithoutSpikes) {
  for (const double clip : {0.0, 1.0, 4 * StepGuard::largest_norm}) {
    const config::StepRules rules{
        .nan = Reaction::skip, .skip_limit = 1000, .clip = clip};
    StepGuard guard(rules);
    std::int64_t step = 0;
    for (const double loss : {1.0, -1e300, nan, infinity, -infinity})
      for (const double norm :
           {0.0, 1.0, StepGuard::largest_norm,
            std::nextafter(StepGuard::largest_norm, infinity), 1e300, infinity, nan})
        EXPECT_EQ(kernels::math::is_sound(guard.limits(), loss, norm),
                  guard.judge(++step, loss, norm).verdict == Verdict::sound)
            << loss << " " << norm << " " << clip;
  }
}

TEST(StepGuard, SkipsAreCountedOverAWindow) {
  StepGuard guard({.nan = Reaction::skip, .skip_limit = 2, .skip_window = 5});
  EXPECT_EQ(guard.judge(1, nan, 1).verdict, Verdict::skip);
  EXPECT_EQ(guard.judge(2, nan, 1).verdict, Verdict::skip);
  for (int step = 3; step <= 5; ++step) guard.judge(step, 1, 1);
  EXPECT_EQ(guard.judge(6, nan, 1).verdict, Verdict::skip);  // step 1 is forgotten
  const auto last = guard.judge(6, nan, 1);
  EXPECT_EQ(last.verdict, Verdict::stop);
  EXPECT_NE(last.reason.find("3 of the last 5 steps"), std::string::npos) << last.reason;
}

// mean 3, deviation 0.5, threshold 4: a spike is above 5.
TEST(StepGuard, SpikeOfLossAndNorm) {
  const config::StepRules rules{
      .spike = Reaction::skip, .spike_threshold = 4, .spike_window = 8};
  auto guard = guard_after(8, rules);
  EXPECT_EQ(guard.judge(9, 4.99, 4).verdict, Verdict::sound);
  guard = guard_after(8, rules);
  // ... which can be asked before
  EXPECT_TRUE(guard.is_sound(4.99, 4));
  EXPECT_FALSE(guard.is_sound(5.01, 4));
  EXPECT_FALSE(guard.is_sound(nan, 4));
  EXPECT_EQ(guard.judge(9, 5.01, 4).verdict, Verdict::skip);
  EXPECT_EQ(guard.judge(10, 4.99, 6.01).verdict, Verdict::skip);
  EXPECT_EQ(guard.judge(11, -100, 4).verdict, Verdict::sound);  // a fall is none
}

TEST(StepGuard, NoSpikeBeforeTheWindowIsFullNorWhenOff) {
  auto guard =
      guard_after(7, {.spike = Reaction::stop, .spike_threshold = 4, .spike_window = 8});
  EXPECT_EQ(guard.judge(8, 1000, 1).verdict, Verdict::sound);
  auto off = guard_after(8, {.spike_window = 8});
  EXPECT_EQ(off.judge(9, 1000, 1).verdict, Verdict::sound);
}

// After a restart it judges as if nothing had happened.
TEST(StepGuard, Remembers) {
  const config::StepRules rules{.nan = Reaction::skip,
                                .spike = Reaction::skip,
                                .spike_threshold = 3,
                                .spike_window = 8,
                                .skip_limit = 3,
                                .skip_window = 20};
  const auto loss = [](std::int64_t step) {
    return step % 7 == 0 ? 50.0 : step == 11 ? nan : usual(step);
  };
  StepGuard whole(rules);
  std::vector<Verdict> verdicts;
  for (int step = 1; step <= 40; ++step)
    verdicts.push_back(whole.judge(step, loss(step), 1).verdict);
  for (const int cut : {1, 9, 14, 30}) {
    StepGuard again(rules);
    const auto first = std::max<std::int64_t>(1, cut - again.memory() + 1);
    for (auto step = first; step <= cut; ++step)
      again.remember(step, loss(step), 1,
                     verdicts[static_cast<std::size_t>(step - 1)] != Verdict::sound);
    for (int step = cut + 1; step <= 40; ++step)
      EXPECT_EQ(again.judge(step, loss(step), 1).verdict,
                verdicts[static_cast<std::size_t>(step - 1)])
          << cut << " " << step;
  }
}

}  // namespace
}  // namespace trireme::train
