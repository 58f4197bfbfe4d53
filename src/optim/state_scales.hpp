// StateScales: the scales of weights and moments, those in force and the next ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "kernels/tensor_run.hpp"
#include "optim/number_codec.hpp"

namespace trireme::optim {

// State of which each tensor has scales of its own.
enum class Scaled : std::uint8_t { weight, moment1, moment2 };

// A scale belongs to the whole tensor, or to a 128 x 128 block of it, on all ranks among
// which it is spread. New ones are made in turns: start(), note() all values, agree(),
// encode() at the next scales, advance(). docs/decisions/low-precision-state.md.
class StateScales {
 public:
  StateScales(StoreContext& context, NumberCodec& codec, Device device);

  const Scales& current(Scaled what) const { return scales_of(what).current; }
  const Scales& next(Scaled what) const { return scales_of(what).next; }
  bool has(Scaled what) const { return !current(what).empty(); }
  bool any() const;

  // Moments' scales take what a checkpoint wrote into their memory.
  void receive_moments();
  void append_boxes(Scaled what, std::string_view section,
                    std::vector<StateBox>& boxes) const;

  // Forgets all magnitudes.
  void start();
  // Elements [part) of a tensor, whose values are given. A moment that is not finite
  // leaves its tensor's scale to the others, a weight makes it NaN.
  void note_weight(const TensorRange& tensor, Range part, const TensorView& values);
  void note_moment(Scaled what, const TensorRange& tensor, const TensorView& values);
  // The next scales, from the magnitudes on all ranks among which tensors are spread.
  void agree();
  // The next scales come into force: of weights alone, of everything.
  void advance_weights();
  void advance();

  // codes = values at scales of weights: the next ones, or those in force. `values` is as
  // NumberCodec::encode() leaves it.
  void encode_weight(const TensorRange& tensor, Range part, const TensorView& values,
                     const Scales& scales, const TensorView& codes);
  // values = codes of a whole flat parameter.
  void decode_weights(const FlatParameter& flat, const TensorView& codes,
                      const TensorView& values);

  std::size_t bytes() const;

 private:
  struct Turn {
    Scales current, next;
  };
  static constexpr std::size_t classes = 3;
  Turn& scales_of(Scaled what) { return scales_[static_cast<std::size_t>(what)]; }
  const Turn& scales_of(Scaled what) const {
    return scales_[static_cast<std::size_t>(what)];
  }
  bool scales_blocks() const { return context_.config.scales_blocks(); }
  void number_weights();
  TensorView blocks_of(const Scales& scales, std::size_t tensor) const;
  float& amax_of(Scaled what, std::size_t tensor) {
    return amaxes_[classes * tensor + static_cast<std::size_t>(what)];
  }
  float next_weight_scale(std::size_t tensor, std::size_t scale, float amax) const;
  void set_next(Scaled what);
  void set_next_blocks();
  void max_over_holders(const TensorView& amaxes, std::size_t dense);

  StoreContext& context_;
  NumberCodec& codec_;
  std::array<Turn, classes> scales_;
  std::vector<NamedBox> boxes_;  // [1], of each tensor's scale in checkpoints
  // Of weights' scales: the first of each tensor, and of the next one behind the last.
  std::vector<std::size_t> first_;
  std::size_t dense_weight_scales_ = 0;
  std::vector<float> amaxes_;  // of each tensor and class
  Buffer block_amaxes_;        // of weights with a scale for each block
};

// Where elements [part) of a flat parameter lie in the tensor.
kernels::TensorRun run_of(const TensorRange& tensor, Range part);

}  // namespace trireme::optim
