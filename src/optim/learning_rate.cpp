// Learning-rate schedules.
// SPDX-License-Identifier: Apache-2.0
#include "optim/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme::optim {
namespace {

// Part of [begin, begin + length] that `step` has gone, in [0, 1].
double part_gone(std::int64_t step, std::int64_t begin, std::int64_t length) {
  if (length <= 0) return step > begin ? 1.0 : 0.0;
  return std::clamp(static_cast<double>(step - begin) / static_cast<double>(length), 0.0,
                    1.0);
}

}  // namespace

double schedule_factor(const OptimizerConfig& config, std::int64_t update) {
  const ScheduleConfig& s = config.schedule;
  const std::int64_t step = s.count(update);
  if (step <= s.warmup) return static_cast<double>(step) / static_cast<double>(s.warmup);
  const std::int64_t decay = s.decay > 0 ? s.decay : config.steps - s.warmup;
  const double after_warmup = part_gone(step, s.warmup, decay), f = s.final_fraction;
  double factor = 1.0;
  switch (s.kind) {
    case DecayStyle::constant: break;
    case DecayStyle::linear: factor = 1.0 - (1.0 - f) * after_warmup; break;
    case DecayStyle::cosine:
      factor = f + (1.0 - f) * 0.5 * (1.0 + std::cos(std::numbers::pi * after_warmup));
      break;
    case DecayStyle::wsd:
      factor = 1.0 - (1.0 - f) * part_gone(step, config.steps - s.decay, s.decay);
      break;
  }
  return factor;
}

double learning_rate(const OptimizerConfig& config, std::int64_t update) {
  const ScheduleConfig& s = config.schedule;
  const std::int64_t step = s.count(update);
  // (learning_rate * step) / warmup, not learning_rate * (step / warmup), which rounds
  // differently: runs begun with earlier versions must resume bit for bit.
  if (step <= s.warmup) {
    return config.learning_rate * static_cast<double>(step) /
           static_cast<double>(s.warmup);
  }
  return config.learning_rate * schedule_factor(config, update);
}

double rate_of(const Param& param, double learning_rate, double schedule) {
  return param.learning_rate >= 0 ? param.learning_rate * schedule : learning_rate;
}

double decay_of(const OptimizerConfig& config, const Param& param) {
  if (param.weight_decay >= 0) return param.weight_decay;
  return param.decay ? config.weight_decay : 0.0;
}

}  // namespace trireme::optim
