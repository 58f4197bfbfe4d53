// StateScales: magnitudes over all ranks, and the scales that they give.
// SPDX-License-Identifier: Apache-2.0
#include "optim/state_scales.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/fp8_blocks.hpp"

namespace trireme::optim {
namespace {

// Blocks of 128 x 128 in a tensor; a vector is a column.
std::int64_t blocks_in(const Shape& whole) {
  const std::int64_t columns = whole.rank() == 2 ? whole[1] : 1;
  return divide_up(whole[0], fp8_block) * divide_up(columns, fp8_block);
}

TensorClass class_of(Scaled what) {
  switch (what) {
    case Scaled::moment1: return TensorClass::moment1;
    case Scaled::moment2: return TensorClass::moment2;
    case Scaled::weight: break;
  }
  return TensorClass::weight;
}

}  // namespace

kernels::TensorRun run_of(const TensorRange& tensor, Range part) {
  const NamedBox& named = *tensor.named;
  const bool matrix = named.whole.rank() == 2;
  return {part.begin - tensor.range.begin, matrix ? named.extent[1] : 1,
          named.global_begin[0], matrix ? named.global_begin[1] : 0,
          matrix ? named.whole[1] : 1};
}

StateScales::StateScales(StoreContext& context, NumberCodec& codec, Device device)
    : context_(context), codec_(codec) {
  const StoreConfig& config = context.config;
  number_weights();
  const auto make = [&](Scaled what, std::size_t count, const char* label,
                        const char* next_label) {
    const DType type = config.type(class_of(what));
    scales_of(what) = {Scales(device, type, count, label),
                       Scales(device, type, count, next_label)};
  };
  if (is_fp8(config.type(TensorClass::weight)))
    make(Scaled::weight, first_.back(), "scales of weights", "next scales of weights");
  if (!config.low_precision()) return;
  if (scales_blocks())
    block_amaxes_ = Buffer(device, DType::f32, {static_cast<std::int64_t>(first_.back())},
                           MemoryClass::workspace, "largest magnitudes of weights");
  if (!config.training) return;
  const std::size_t tensors = context.layout.tensors.size();
  if (config.has_moment1())
    make(Scaled::moment1, tensors, "scales of first moments",
         "next scales of first moments");
  if (config.has_moment2())
    make(Scaled::moment2, tensors, "scales of second moments",
         "next scales of second moments");
}

void StateScales::number_weights() {
  const FlatLayout& layout = context_.layout;
  std::size_t scales = 0;
  for (std::size_t t = 0; t < layout.tensors.size(); ++t) {
    const NamedBox& named = *layout.tensors[t].named;
    boxes_.push_back({named.tensor, {1}, {0}, {0}, {1}, Place::invariant, true});
    if (t == layout.dense_tensors) dense_weight_scales_ = scales;
    first_.push_back(scales);
    scales += scales_blocks() ? static_cast<std::size_t>(blocks_in(named.whole)) : 1;
  }
  if (layout.dense_tensors == layout.tensors.size()) dense_weight_scales_ = scales;
  first_.push_back(scales);
}

bool StateScales::any() const {
  return has(Scaled::weight) || has(Scaled::moment1) || has(Scaled::moment2);
}

void StateScales::receive_moments() {
  scales_of(Scaled::moment1).current.receive(context_.stream);
  scales_of(Scaled::moment2).current.receive(context_.stream);
}

// Every rank has every scale of its stage: one of them writes it.
void StateScales::append_boxes(Scaled what, std::string_view section,
                               std::vector<StateBox>& boxes) const {
  if (!has(what)) return;
  const comm::Mesh& mesh = context_.mesh;
  for (std::size_t t = 0; t < boxes_.size(); ++t) {
    const FlatParameter& flat = context_.layout.flats[context_.layout.tensors[t].flat];
    if (flat.frozen) continue;
    const bool writes = flat.shard_group->rank() == 0 &&
                        flat.replicate_group->rank() == 0 &&
                        mesh.group(comm::Axis::tensor).rank() == 0 &&
                        (!flat.in_embedding_group || mesh.embedding_group().rank() == 0);
    boxes.push_back({&boxes_[t], section, Shape{0}, current(what).view(t), writes});
  }
}

void StateScales::start() {
  amaxes_.assign(classes * context_.layout.tensors.size(), 0.0f);
  if (scales_blocks()) kernels::fill(context_.stream, block_amaxes_.view(), 0.0);
}

void StateScales::note_weight(const TensorRange& tensor, Range part,
                              const TensorView& values) {
  if (!has(Scaled::weight)) return;
  const std::size_t t = tensor.tensor;
  if (scales_blocks()) {
    const auto first = static_cast<std::int64_t>(first_[t]);
    const auto count = static_cast<std::int64_t>(first_[t + 1]) - first;
    return kernels::amax_of_blocks(context_.stream, values, run_of(tensor, part),
                                   block_amaxes_.view().rows(first, count));
  }
  float& most = amax_of(Scaled::weight, t);
  const float amax = codec_.amax(values);
  most = std::isnan(amax) ? std::numeric_limits<float>::infinity() : std::max(most, amax);
}

void StateScales::note_moment(Scaled what, const TensorRange& tensor,
                              const TensorView& values) {
  if (!has(what)) return;
  float& most = amax_of(what, tensor.tensor);
  most = std::max(most, codec_.finite_amax(values));
}

void StateScales::agree() {
  const FlatLayout& layout = context_.layout;
  const TensorView memory =
      codec_.amax_memory(static_cast<std::int64_t>(classes) *
                         static_cast<std::int64_t>(layout.tensors.size()));
  const bool meta = context_.stream.device().is_meta();
  const TensorView host(amaxes_.data(), DType::f32, memory.shape());
  if (!meta) copy_bytes(context_.stream, host, memory);
  max_over_holders(memory, classes * layout.dense_tensors);
  if (scales_blocks()) max_over_holders(block_amaxes_.view(), dense_weight_scales_);
  if (meta) return;
  copy_bytes(context_.stream, memory, host);
  context_.stream.synchronize();
  if (scales_blocks()) {
    set_next_blocks();
  } else {
    set_next(Scaled::weight);
  }
  set_next(Scaled::moment1);
  set_next(Scaled::moment2);
}

// What is frozen has no update: its codes stay as they are, and so do their scales unless
// magnitudes were noted, as when weights are set.
float StateScales::next_weight_scale(std::size_t tensor, std::size_t scale,
                                     float amax) const {
  const FlatLayout& layout = context_.layout;
  const bool frozen = layout.flats[layout.tensors[tensor].flat].frozen;
  if (frozen && amax == 0) return current(Scaled::weight).at(scale);
  return scale_or_nan(amax, context_.config.type(TensorClass::weight));
}

void StateScales::set_next(Scaled what) {
  if (!has(what)) return;
  const DType type = context_.config.type(class_of(what));
  std::vector<float> scales(context_.layout.tensors.size());
  for (std::size_t t = 0; t < scales.size(); ++t) {
    const float amax = amax_of(what, t);
    scales[t] = what == Scaled::weight ? next_weight_scale(t, t, amax)
                                       : power_scale(amax, type, current(what).at(t));
  }
  scales_of(what).next.set_all(context_.stream, std::move(scales));
}

void StateScales::set_next_blocks() {
  std::vector<float> amaxes(first_.back()), scales;
  copy_bytes(context_.stream, block_amaxes_.view(),
             TensorView(amaxes.data(), DType::f32, block_amaxes_.view().shape()));
  context_.stream.synchronize();
  for (std::size_t t = 0; t < context_.layout.tensors.size(); ++t)
    for (std::size_t block = first_[t]; block < first_[t + 1]; ++block)
      scales.push_back(next_weight_scale(t, block, amaxes[block]));
  scales_of(Scaled::weight).next.set_all(context_.stream, std::move(scales));
}

// The first `dense` numbers belong to dense tensors, the others to experts'.
void StateScales::max_over_holders(const TensorView& amaxes, std::size_t dense) {
  const FlatLayout& layout = context_.layout;
  const auto reduce = [&](comm::Group& group, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    group.all_reduce(context_.stream, amaxes.rows(begin, end - begin), comm::Reduce::max)
        .wait();
  };
  const auto split = static_cast<std::int64_t>(dense);
  const std::int64_t all = amaxes.elements();
  const auto shards_of = [&](const LayoutTensor& tensor) -> comm::Group& {
    return *layout.flats[tensor.flat].shard_group;
  };
  if (split > 0) reduce(shards_of(layout.tensors.front()), 0, split);
  if (split < all) reduce(shards_of(layout.tensors.back()), split, all);
  reduce(context_.mesh.group(comm::Axis::tensor), 0, all);
}

void StateScales::advance_weights() {
  std::swap(scales_of(Scaled::weight).current, scales_of(Scaled::weight).next);
}

void StateScales::advance() {
  for (Turn& turn : scales_) std::swap(turn.current, turn.next);
}

TensorView StateScales::blocks_of(const Scales& scales, std::size_t tensor) const {
  return scales.view(first_[tensor],
                     static_cast<std::int64_t>(first_[tensor + 1] - first_[tensor]));
}

void StateScales::encode_weight(const TensorRange& tensor, Range part,
                                const TensorView& values, const Scales& scales,
                                const TensorView& codes) {
  if (!scales_blocks())
    return codec_.encode(TensorClass::weight, values, scales, tensor.tensor, codes);
  const TensorView scales_S = blocks_of(scales, tensor.tensor);
  const kernels::TensorRun run = run_of(tensor, part);
  codec_.report().add(context_.stream, TensorClass::weight, values, codes.dtype(), run,
                      scales_S);
  kernels::encode_blocks(context_.stream, values, run, fp8_format(codes.dtype()),
                         scales_S, memory_as(codes, DType::u8, part.count()));
}

void StateScales::decode_weights(const FlatParameter& flat, const TensorView& codes,
                                 const TensorView& values) {
  const Scales& scales = current(Scaled::weight);
  if (!scales_blocks())
    return codec_.decode_range(flat, flat.whole(), codes, scales, values);
  for_each_tensor(flat, flat.whole(), [&](const TensorRange& tensor, Range part) {
    const TensorView from = codes.rows(part.begin, part.count());
    kernels::decode_blocks(context_.stream, memory_as(from, DType::u8, part.count()),
                           run_of(tensor, part), fp8_format(from.dtype()),
                           blocks_of(scales, tensor.tensor),
                           values.rows(part.begin, part.count()));
  });
}

std::size_t StateScales::bytes() const {
  std::size_t bytes = block_amaxes_.bytes();
  for (const Turn& turn : scales_) bytes += turn.current.bytes() + turn.next.bytes();
  return bytes;
}

}  // namespace trireme::optim
