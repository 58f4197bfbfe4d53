// Fp8State: the scales of the linear layers of a stage, and their histories.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "nn/fp8_operands.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

struct DelayedScaling {
  std::int64_t history = 1024;  // steps
  int margin = 0;               // powers of two left free
};

// The scale of the next steps by delayed scaling: that of the largest number in `history`
// (the newest is `amax`, of the last step) times 2^margin. `before` where amax is 0,
// infinite or NaN.
float delayed_scale(std::span<const float> history, float amax, float before,
                    kernels::Fp8Format format, int margin);

// Whether a tensor of a checkpoint is a state of delayed scaling.
bool is_fp8_state(std::string_view tensor);

class Fp8State {
 public:
  // The layers' operands, in FP8, outlive this.
  Fp8State(std::vector<Fp8Operands*> layers, const DelayedScaling& settings,
           const parallel::TensorRegion& region, Device device);
  Fp8State(const Fp8State&) = delete;
  Fp8State& operator=(const Fp8State&) = delete;

  // Weights have changed, or may have: their scales are made anew when they are needed.
  void weights_changed();

  // Delayed scaling. The largest magnitudes of the step on this rank start from 0;
  std::int64_t amaxes() const;  // how many there are: three for each layer, or none
  void begin_step(Stream& stream);
  // amax_3L (f32, on the host, pinned beside a GPU, written when the stream has come this
  // far): them, for the caller to reduce over all ranks;
  void bring(Stream& stream, const TensorView& amax_3L) const;
  // and, those of the whole tensors, they become part of the history.
  void finish_step(Stream& stream, const TensorView& amax_3L);
  // How often it has changed which operands have a scale that stands for a step: kernels
  // of a step differ by that.
  std::int64_t changes() const { return changes_; }
  // The tables follow the state that was loaded.
  void refresh(Stream& stream);
  // [3, history] and [3] of each layer: of x, W and dy. None with current scaling.
  void collect(std::vector<StateTensor*>& states);

  std::size_t bytes() const {
    return scales_.bytes() + amaxes_.bytes() + history_.bytes() + kept_.bytes();
  }

 private:
  void publish(Stream& stream);

  std::vector<Fp8Operands*> layers_;
  DelayedScaling settings_;
  bool delayed_ = false;
  std::int64_t changes_ = 0;
  std::vector<LinearScales> of_layer_;
  Buffer scales_, amaxes_;  // f32 [3 L], where the layers compute
  Buffer history_, kept_;   // on the host: f32 [3 L, history]; scales [3 L], 0: none yet
  std::vector<StateTensor> states_;
};

}  // namespace trireme::nn
