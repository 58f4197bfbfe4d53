// CachedAttention: the attention core of generation.
// SPDX-License-Identifier: Apache-2.0
// It keeps the keys and values of earlier positions.
#pragma once

#include <vector>

#include "parallel/attention_core.hpp"

namespace trireme::infer {

// One cache a layer, [C, G * K] for keys and for values, one sequence. Layers call in
// order: each forward of the model is one begin() and then one call a layer. Where values
// are the keys themselves (latent attention), the layers have one cache for both.
class CachedAttention final : public parallel::AttentionCore {
 public:
  // row_width: G * K on this rank. capacity: positions C.
  CachedAttention(std::int64_t layers, std::int64_t capacity, std::int64_t row_width,
                  bool values_are_keys, DType dtype, Device device);
  // Makes layer `layer` one of the gated delta rule, which has a state of these shapes
  // (see parallel::RecurrentState) in place of a cache.
  void make_recurrent(std::int64_t layer, const Shape& tail, const Shape& state,
                      DType dtype, Device device);

  bool is_cached() const override { return true; }
  std::size_t bytes() const;

  // The next forward brings positions [past, past + Q); 0: a text begins, before which
  // states are 0. Throws Error(internal) past the capacity.
  void begin(Stream& stream, std::int64_t past, std::int64_t count);

  // On meta that of the first layer that has one.
  std::vector<parallel::RecurrentState> recurrent_states(const Stream& stream,
                                                         std::int64_t rows) override;

  void forward(Stream& stream, Arena& scratch, const kernels::AttentionShape& shape,
               const TensorView& q_THK, const TensorView& k_TGK, const TensorView& v_TGK,
               const TensorView& o_THK, const TensorView& lse_TH) override;
  // Throws Error(internal): nothing is trained through a cache.
  void backward(Stream& stream, Arena& scratch, const kernels::AttentionShape& shape,
                const TensorView& do_THK, const TensorView& q_THK,
                const TensorView& k_TGK, const TensorView& v_TGK, const TensorView& o_THK,
                const TensorView& lse_TH, const TensorView& dq_THK,
                const TensorView& dk_TGK, const TensorView& dv_TGK) override;

 private:
  struct Layer {
    Buffer keys, values;  // no values where they are the keys
    Buffer tail, state;   // of a recurrent layer, which has no others
  };
  std::vector<Layer> layers_;
  std::size_t next_layer_ = 0;
  std::int64_t past_ = 0, capacity_;
};

}  // namespace trireme::infer
