// Pass: what every forward and backward of one microbatch shares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include "base/memory.hpp"
#include "base/param.hpp"
#include "parallel/attention_core.hpp"

namespace trireme::nn {

// Where modules deliver the gradients of their weights.
class WeightGradients {
 public:
  using Ready = std::function<void(Param&)>;

  // `ready` is told of every contribution that is complete; it may be empty.
  explicit WeightGradients(Ready ready = {}) : ready_(std::move(ready)) {}

  // Work that adds one contribution to the gradient of `param`. Post it after the
  // communication of the input gradient has been started: the two overlap.
  template <class Work>
  void post(Param& param, const Work& work) {
    work();
    if (ready_) ready_(param);
  }

 private:
  Ready ready_;
};

// Legend: B sequences, S positions, T = B * S tokens; rows outside the tensor region are
// all T of them, or this rank's part with sequence parallelism.
struct Pass {
  Stream& stream;
  Arena& saved;    // lives until the microbatch's backward is done
  Arena& scratch;  // a stack; whoever takes from it releases it
  WeightGradients& weight_gradients;
  parallel::AttentionCore& attention;
  std::int64_t batch = 0;     // B
  std::int64_t sequence = 0;  // S
  TensorView positions_T;     // i32: position of each token in its sequence
  // Of the losses of routers (nn/moe.hpp) in backward: 1 / sequences and 1 / tokens of
  // the global batch.
  double aux_scale = 0;
  double token_scale = 0;

  std::int64_t tokens() const { return batch * sequence; }
};

}  // namespace trireme::nn
