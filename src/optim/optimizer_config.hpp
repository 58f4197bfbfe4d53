// What a deck's [optimizer] section says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optim/update_rules.hpp"

namespace trireme::optim {

enum class DecayStyle : std::uint8_t { constant, linear, cosine, wsd };

// See learning_rate() in optim/learning_rate.hpp for the formulas.
struct ScheduleConfig {
  DecayStyle kind = DecayStyle::constant;
  std::int64_t warmup = 0;  // steps of linear warm-up
  std::int64_t decay =
      0;  // wsd: steps of the final decay; linear, cosine: 0 = to the end
  double final_fraction = 0.1;  // of the learning rate, at the end
};

// How the tensors whose names match are trained. What a later group gives wins over what
// an earlier one does; what it does not give stays.
struct ParameterGroup {
  std::string pattern;  // of tensor names; * stands for any characters
  bool frozen = false;
  double learning_rate = -1;  // at the peak; below 0: not given
  double weight_decay = -1;   // below 0: not given
};

struct OptimizerConfig {
  std::string name = "adamw";  // of a rule
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  double clip = 0;  // global norm; 0: no clipping
  ScheduleConfig schedule;
  std::int64_t steps = 0;  // of the run, for the schedules
  std::vector<ParameterGroup> groups;

  const UpdateRule& rule() const { return update_rule(name, beta1); }
};

}  // namespace trireme::optim
