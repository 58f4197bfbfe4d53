// StepGuard: judges whether a step's loss and gradient norm are sound.
// SPDX-License-Identifier: Apache-2.0
#include "train/step_guard.hpp"

#include <cmath>
#include <utility>

#include "base/format.hpp"

namespace trireme::train {

// mean and deviation in two passes: the values are few, and close to each other.
std::string StepGuard::spike(const char* name, double x,
                             const std::deque<double>& window) const {
  const auto n = static_cast<double>(rules_.spike_window);
  if (std::ssize(window) < rules_.spike_window) return {};
  double mean = 0, square = 0;
  for (const double value : window) mean += value / n;
  for (const double value : window) square += (value - mean) * (value - mean) / n;
  const double deviation = std::sqrt(square);
  if (x <= mean + rules_.spike_threshold * deviation) return {};
  return format(
      "{} {} is {} standard deviations above the mean {} of the last {} sound "
      "steps (health.spike_threshold = {})",
      name, exact(x), fixed((x - mean) / deviation, 1), exact(mean), window.size(),
      exact(rules_.spike_threshold));
}

StepGuard::Doubt StepGuard::doubt(double loss, double norm) const {
  Doubt out{rules_.nan, {}};
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    out.reason = format("loss {} and gradient norm {} are not both finite", exact(loss),
                        exact(std::abs(norm)));  // the sign of a NaN means nothing
  } else if (!kernels::math::is_sound(limits(), loss, norm)) {
    out.reason = format(
        "gradient norm {} is beyond {}, where second moments overflow; write an "
        "optimizer.clip",
        exact(norm), exact(largest_norm));
  } else if (rules_.spike != config::StepRules::Reaction::off) {
    out.reaction = rules_.spike;
    out.reason = spike("loss", loss, losses_);
    if (out.reason.empty()) out.reason = spike("gradient norm", norm, norms_);
  }
  return out;
}

StepGuard::Judgement StepGuard::judge(std::int64_t step, double loss, double norm) {
  Judgement out;
  Doubt doubts = doubt(loss, norm);
  out.reason = std::move(doubts.reason);
  const bool skipped = !out.reason.empty();
  remember(step, loss, norm, skipped);
  if (!skipped) return out;
  out.verdict = doubts.reaction == config::StepRules::Reaction::stop ? Verdict::stop
                                                                     : Verdict::skip;
  if (out.verdict == Verdict::skip && std::ssize(skips_) > rules_.skip_limit) {
    out.verdict = Verdict::stop;
    out.reason += format(
        "; {} of the last {} steps would be skipped "
        "(health.skip_limit = {})",
        skips_.size(), rules_.skip_window, rules_.skip_limit);
  }
  return out;
}

void StepGuard::remember(std::int64_t step, double loss, double norm, bool skipped) {
  while (!skips_.empty() && skips_.front() <= step - rules_.skip_window)
    skips_.pop_front();
  if (skipped) {
    skips_.push_back(step);
    return;
  }
  // A step of fp16 that overflowed: the loss scale has dealt with it.
  if (!std::isfinite(loss) || !std::isfinite(norm)) return;
  const auto push = [&](std::deque<double>& window, double x) {
    window.push_back(x);
    if (std::ssize(window) > rules_.spike_window) window.pop_front();
  };
  push(losses_, loss);
  push(norms_, norm);
}

}  // namespace trireme::train
