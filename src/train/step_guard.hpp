// StepGuard: whether a step's loss and gradient may be used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>

#include "config/run_config.hpp"
#include "kernels/math/step_decision.hpp"

namespace trireme::train {

// A pure function of the steps so far: every rank judges the same numbers and comes to
// the same verdict.
class StepGuard {
 public:
  enum class Verdict : std::uint8_t { sound, skip, stop };
  struct Judgement {
    Verdict verdict = Verdict::sound;
    std::string reason;  // why not sound
  };

  explicit StepGuard(const config::StepRules& rules) : rules_(rules) {}

  // A norm, after clipping, up to which second moments stay inside the range of fp32, and
  // of fp16 and FP8 with their scales.
  static constexpr double largest_norm = 0x1p50;

  // What judge() asks of a step's numbers alone: without spikes all that it asks.
  kernels::StepLimits limits() const {
    const bool clips = rules_.clip > 0 && rules_.clip <= largest_norm;
    return {true, clips ? std::numeric_limits<double>::infinity() : largest_norm};
  }
  // Steps in order. Unsound when loss or gradient norm is not finite or the norm exceeds
  // largest_norm, or when the window is full and one of them is a spike: x > mean +
  // threshold * deviation, over the last sound steps. The deviation is that of a
  // population: its square is the sum over the window of (x - mean)^2 / n. What is
  // skipped does not enter the window. The rule is our own.
  Judgement judge(std::int64_t step, double loss, double norm);
  // Whether judge() would find these numbers sound.
  bool is_sound(double loss, double norm) const {
    return doubt(loss, norm).reason.empty();
  }
  // A step of before a restart, in order: what judge() has remembered of it.
  void remember(std::int64_t step, double loss, double norm, bool skipped);

  // Steps that a restart must remember for the verdicts to be those of an unbroken run.
  std::int64_t memory() const { return rules_.spike_window + rules_.skip_window; }

 private:
  // Why a step is not sound, and what the deck says to do then; no reason: it is sound.
  struct Doubt {
    config::StepRules::Reaction reaction;
    std::string reason;
  };
  Doubt doubt(double loss, double norm) const;
  std::string spike(const char* name, double x, const std::deque<double>& window) const;

  config::StepRules rules_;
  std::deque<double> losses_, norms_;  // of the last sound steps
  std::deque<std::int64_t> skips_;     // steps
};

}  // namespace trireme::train
