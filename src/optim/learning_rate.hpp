// Learning-rate schedules: pure functions of the step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/param.hpp"
#include "optim/optimizer_config.hpp"

namespace trireme::optim {

// Learning rate of update `step` (from 1) of config.steps, with f = final_fraction:
//   warm-up    lr * step / warmup               while step <= warmup
//   constant   lr
//   linear     from lr to f lr over the decay steps after warm-up
//   cosine     lr * (f + (1 - f) (1 + cos(pi t)) / 2), t the part of the decay gone
//   wsd        lr, then linear to f lr over the last `decay` steps
// Where the schedule counts tokens, `step` and all lengths are the tokens up to the end
// of the update's step. For linear and cosine decay = 0 means all steps after warm-up;
// past its end: f lr. Sources: cosine is eq. 5 of Loshchilov and Hutter, "SGDR", 2017,
// without restarts; wsd is of Hu et al., "MiniCPM", 2024, here with the linear decay of
// Haegele et al., "Scaling laws and compute-optimal training beyond fixed training
// durations", 2024.
double learning_rate(const OptimizerConfig& config, std::int64_t step);

// The same as a fraction of the peak: every group's rate is its own peak times this.
double schedule_factor(const OptimizerConfig& config, std::int64_t step);

// Those of a Param, which may have its own. learning_rate: of the others at this step;
// schedule: schedule_factor() of it.
double rate_of(const Param& param, double learning_rate, double schedule);
double decay_of(const OptimizerConfig& config, const Param& param);

}  // namespace trireme::optim
