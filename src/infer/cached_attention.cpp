// CachedAttention: attention of new positions to all that the cache holds.
// SPDX-License-Identifier: Apache-2.0
#include "infer/cached_attention.hpp"

#include "kernels/elementwise.hpp"

namespace trireme::infer {

CachedAttention::CachedAttention(std::int64_t layers, std::int64_t capacity,
                                 std::int64_t row_width, bool values_are_keys,
                                 DType dtype, Device device)
    : capacity_(capacity) {
  const Shape shape = {1, capacity, row_width};
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto cache = [&](const char* label) {
      return Buffer(device, dtype, shape, MemoryClass::activations, label);
    };
    Layer& layer = layers_.emplace_back();
    layer.keys = cache("keys");
    if (!values_are_keys) layer.values = cache("values");
  }
}

std::size_t CachedAttention::bytes() const {
  std::size_t bytes = 0;
  for (const Layer& layer : layers_)
    bytes += layer.keys.bytes() + layer.values.bytes() + layer.tail.bytes() +
             layer.state.bytes();
  return bytes;
}

void CachedAttention::make_recurrent(std::int64_t layer, const Shape& tail,
                                     const Shape& state, DType dtype, Device device) {
  Layer& recurrent = layers_.at(static_cast<std::size_t>(layer));
  recurrent.keys = Buffer();
  recurrent.values = Buffer();
  recurrent.tail =
      Buffer(device, dtype, tail, MemoryClass::activations, "convolution's tail");
  recurrent.state = Buffer(device, accumulator_of(dtype), state, MemoryClass::activations,
                           "state of the delta rule");
}

std::vector<parallel::RecurrentState> CachedAttention::recurrent_states(
    const Stream& stream, std::int64_t rows) {
  const auto state_of = [&](const Layer& layer) {
    return std::vector<parallel::RecurrentState>{
        {{0, rows}, layer.tail.view(), layer.state.view()}};
  };
  if (!stream.device().is_meta()) return state_of(layers_.at(next_layer_++));
  for (const Layer& layer : layers_)
    if (!layer.state.view().empty()) return state_of(layer);
  fail(Status::internal, "no layer has a state");
}

void CachedAttention::begin(Stream& stream, std::int64_t past, std::int64_t count) {
  require(past + count <= capacity_, "positions up to {} in a cache of {}", past + count,
          capacity_);
  past_ = past;
  next_layer_ = 0;
  if (past > 0) return;
  for (const Layer& layer : layers_)
    for (const Buffer* buffer : {&layer.tail, &layer.state})
      if (buffer->bytes() > 0) kernels::fill(stream, buffer->view(), 0.0);
}

void CachedAttention::forward(Stream& stream, Arena& scratch,
                              const kernels::AttentionShape& shape,
                              const TensorView& q_THK, const TensorView& k_TGK,
                              const TensorView& v_TGK, const TensorView& o_THK,
                              const TensorView& lse_TH) {
  if (stream.device().is_meta()) return;
  Layer& layer = layers_.at(next_layer_++);
  const bool values_are_keys = layer.values.view().empty();
  const TensorView keys = layer.keys.view(),
                   values = values_are_keys ? keys : layer.values.view();
  const Shape rows = {capacity_, keys.dim(2)};
  kernels::copy(stream, k_TGK, keys.reshape(rows).rows(past_, shape.sequence));
  if (!values_are_keys)
    kernels::copy(stream, v_TGK, values.reshape(rows).rows(past_, shape.sequence));
  kernels::attention_cached(stream, scratch, shape, past_, q_THK, keys, values, o_THK,
                            lse_TH);
}

void CachedAttention::backward(Stream&, Arena&, const kernels::AttentionShape&,
                               const TensorView&, const TensorView&, const TensorView&,
                               const TensorView&, const TensorView&, const TensorView&,
                               const TensorView&, const TensorView&, const TensorView&) {
  fail(Status::internal, "a cached attention has no backward");
}

}  // namespace trireme::infer
