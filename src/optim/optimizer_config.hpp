// What a deck's [optimizer] section says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "optim/update_rules.hpp"

namespace trireme::optim {

enum class DecayStyle : std::uint8_t { constant, linear, cosine, wsd };

// See learning_rate() in optim/learning_rate.hpp for the formulas.
struct ScheduleConfig {
  DecayStyle kind = DecayStyle::constant;
  std::int64_t warmup = 0;  // of linear warm-up, in steps or tokens, as all that follows
  // wsd: length of the final decay; linear, cosine: length of the decay, 0 = to the end.
  std::int64_t decay = 0;
  double final_fraction = 0.1;  // of the learning rate, at the end
  // With tokens counted instead of steps: steps of as many tokens, in order.
  struct Tokens {
    std::int64_t first_step = 1, before = 0, of_step = 0;
  };
  std::vector<Tokens> tokens = {};

  // What the schedule has counted when a step is done.
  std::int64_t count(std::int64_t step) const {
    std::int64_t all = step;
    for (const Tokens& stage : tokens)
      if (step >= stage.first_step)
        all = stage.before + (step - stage.first_step + 1) * stage.of_step;
    return all;
  }
};

// How the tensors whose names match are trained. What a later group gives wins over what
// an earlier one does; what it does not give stays.
struct ParameterGroup {
  std::string pattern;  // of tensor names; * stands for any characters
  bool frozen = false;
  double learning_rate = -1;  // at the peak; below 0: not given
  double weight_decay = -1;   // below 0: not given
};

// Of Muon's matrices; their weight decay and learning rate are those of the others.
struct MuonConfig {
  double momentum = 0.95;
  bool nesterov = true;
  int steps = 5;            // of Newton and Schulz
  bool match_adamw = true;  // updates of the size of AdamW's, whatever the shape

  // What the rate is multiplied with, for a whole matrix. Source: Liu et al., "Muon is
  // scalable for LLM training", 2025, section 2.2; Jordan et al., 2024.
  double adjustment(std::int64_t rows, std::int64_t columns) const {
    const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
    return match_adamw ? 0.2 * std::sqrt(std::max(r, c))
                       : std::sqrt(std::max(1.0, r / c));
  }
};

// Copies of the model (data ranks, or groups of HYBRID_SHARD) that take steps by
// themselves, and the step that they take together: see OuterStep.
struct OuterConfig {
  std::int64_t every = 0;    // steps; 0: the copies' gradients are summed in each
  double learning_rate = 1;  // 1: the mean of the copies, as in LocalSGD
  double momentum = 0;       // Nesterov's

  bool on() const { return every > 0; }
  bool ends_round(std::int64_t step) const { return on() && step % every == 0; }
  bool has_momentum() const { return on() && momentum > 0; }
  // The weights at the beginning of a round are kept.
  bool has_anchor() const { return has_momentum() || (on() && learning_rate != 1); }
};

struct OptimizerConfig {
  std::string name = "adamw";  // of a rule
  double learning_rate = 0;
  // For adamw they enter m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2 and
  // the step along m / (sqrt(v) + eps), where m and v are corrected for their beginning:
  // Kingma and Ba, "Adam", 2015, algorithm 1. kernels/math/update.hpp has every rule's.
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  // It is decoupled, w = w - lr weight_decay w: Loshchilov and Hutter, "Decoupled weight
  // decay regularization", 2019.
  double weight_decay = 0;
  double clip = 0;  // global norm; 0: no clipping
  ScheduleConfig schedule;
  std::int64_t steps = 0;  // of the run, as the schedule counts
  std::vector<ParameterGroup> groups;
  MuonConfig muon;
  OuterConfig outer;

  const UpdateRule& rule() const { return update_rule(name, beta1); }
  // Before a deck is checked, the name may be one that is not available yet.
  bool keeps_state() const {
    const UpdateRule* found = find_update_rule(name, beta1);
    return found == nullptr || found->states() > 0;
  }
  bool for_matrices() const {
    const UpdateRule* found = find_update_rule(name, beta1);
    return found != nullptr && found->kind == UpdateKind::matrices;
  }
};

}  // namespace trireme::optim
