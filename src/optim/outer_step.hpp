// OuterStep: copies of the model that took steps by themselves become one again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "base/memory.hpp"
#include "optim/optimizer_state.hpp"
#include "optim/state_memory.hpp"
#include "optim/store_context.hpp"

namespace trireme::optim {

// Weights and moments become their mean over the copies. With a learning rate a and a
// momentum b of the outer step, from weights w0 at the beginning of the round, their mean
// w at its end, and v = 0 at first:
//   v  = b v + (w - w0)
//   w' = w0 + a (w - w0 + b v)
// Source: Stich, 2019 (local SGD); Douillard et al., 2023 (DiLoCo: AdamW, and Nesterov's
// momentum as the outer step), whose copies keep their own moments. Here these are
// averaged as well, so that a checkpoint holds one model, and goes on with any number of
// copies.
class OuterStep {
 public:
  // The others outlive this. Without OuterConfig it does nothing; with it nothing is
  // offloaded, and the state is of the accumulator's type.
  OuterStep(StoreContext& context, StateMemory& memory, OptimizerState& state,
            Device device);

  // The weights are the same on all copies now.
  void begin_round();
  // Ends a round: all that the copies hold is the same then, to the bit.
  void run();

  // The momentum, as far as there is one: "optimizer/outer_momentum".
  void append_boxes(std::vector<StateBox>& boxes) const;
  std::size_t bytes() const { return anchor_.bytes() + velocity_.bytes(); }

 private:
  void average(const FlatParameter& flat, const TensorView& shard);
  void move(const FlatParameter& flat, const TensorView& mean);

  StoreContext& context_;
  StateMemory& memory_;
  OptimizerState& state_;
  // Of this rank's shards of all trained flat parameters.
  Buffer anchor_;  // w0 of the formula
  Buffer velocity_;
};

}  // namespace trireme::optim
