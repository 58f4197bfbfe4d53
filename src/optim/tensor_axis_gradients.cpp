// TensorAxisGradients: finding them, and summing them over the ranks of the tensor axis.
// SPDX-License-Identifier: Apache-2.0
#include "optim/tensor_axis_gradients.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "kernels/elementwise.hpp"

namespace trireme::optim {

// Every rank lists every tensor, in the same order, also where it has no shard of it.
std::vector<TensorAxisGradients::Tensor> TensorAxisGradients::all_tensors(
    const ShardOf& shard_of) const {
  std::map<std::string, std::size_t> index;
  std::vector<Tensor> all;
  for (const FlatParameter& flat : context_.layout.flats) {
    if (flat.frozen) continue;
    for (const ParameterView& view : flat.views) {
      for (const NamedBox& named : view.param->boxes) {
        const auto [at, is_new] = index.try_emplace(named.tensor, all.size());
        if (is_new) all.push_back({&named, flat.expert, false, false, {}});
        if (named.place == Place::replicate) all[at->second].partial = true;
      }
    }
    const TensorView shard = shard_of(flat);
    for_each_view(flat, [&](const ParameterView& view, Range range, std::int64_t at) {
      for (const ParamBox& box : boxes_of(*view.param, range)) {
        const TensorView data =
            shard.rows(at + box.begin - range.begin, box.extent.elements())
                .reshape(box.extent);
        all[index.at(box.named->tensor)].boxes.emplace_back(box, data);
      }
    });
  }
  return all;
}

TensorAxisGradients::TensorAxisGradients(StoreContext& context, const ShardOf& shard_of,
                                         Device device)
    : context_(context) {
  std::int64_t largest = 0, total = 0;
  for (Tensor& tensor : all_tensors(shard_of)) {
    if (!tensor.partial) continue;
    // Ranks list the tensors by their order, and others hold as many other experts.
    const comm::Group& holders = context.mesh.experts();
    const bool apart = tensor.of_expert && context.mesh.folding().shard > 1;
    for (int rank = 0; rank < (apart ? holders.size() : 1); ++rank) {
      largest = std::max(largest, tensor.elements());
      total += tensor.elements();
      if (apart && rank != holders.rank()) {
        tensors_.push_back({tensor.named, true, true, true, {}});
      } else {
        tensors_.push_back(tensor);
      }
    }
  }
  if (tensors_.empty() || context.mesh.group(comm::Axis::tensor).size() == 1) return;
  const DType type = context.config.accumulator();
  const auto bucket =
      context.config.bucket_bytes / static_cast<std::int64_t>(size_of(type));
  sums_ = Buffer(device, type, {std::clamp(bucket, largest, std::max(total, largest))},
                 MemoryClass::communication, "partial gradients");
}

void TensorAxisGradients::sum(Codec& codec) {
  if (sums_.view().empty()) return;
  const std::int64_t most = sums_.view().elements();
  std::size_t first = 0;
  std::int64_t used = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::int64_t elements = tensors_[i].elements();
    if (used + elements > most) {
      sum_range(first, i, codec);
      first = i;
      used = 0;
    }
    used += elements;
  }
  sum_range(first, tensors_.size(), codec);
}

// Calls body(named, the box's data, its place in the whole tensor).
template <class Body>
void TensorAxisGradients::for_each_box(std::size_t first, std::size_t last,
                                       const Body& body) const {
  std::int64_t begin = 0;
  for (std::size_t i = first; i < last; ++i) {
    const Tensor& tensor = tensors_[i];
    const Shape& shape = tensor.named->whole;
    const TensorView whole = sums_.view().rows(begin, tensor.elements()).reshape(shape);
    begin += tensor.elements();
    for (const auto& [box, data] : tensor.boxes) {
      TensorView place = whole.rows(box.global_begin[0], box.extent[0]);
      if (shape.rank() == 2) place = place.columns(box.global_begin[1], box.extent[1]);
      body(*box.named, data, place);
    }
  }
}

void TensorAxisGradients::sum_range(std::size_t first, std::size_t last, Codec& codec) {
  if (first == last) return;
  std::int64_t elements = 0;
  for (std::size_t i = first; i < last; ++i) elements += tensors_[i].elements();
  const TensorView used = sums_.view().rows(0, elements);
  kernels::fill(context_.stream, used, 0.0);
  for_each_box(first, last,
               [&](const NamedBox& named, const TensorView& data,
                   const TensorView& place) { codec.decode(named, data, place); });
  context_.mesh.spread().all_reduce(context_.stream, used).wait();
  std::int64_t begin = 0;
  for (std::size_t i = first; i < last; ++i) {
    if (!tensors_[i].foreign)
      codec.rescale(*tensors_[i].named, used.rows(begin, tensors_[i].elements()));
    begin += tensors_[i].elements();
  }
  for_each_box(first, last,
               [&](const NamedBox& named, const TensorView& data,
                   const TensorView& place) { codec.encode(named, place, data); });
}

}  // namespace trireme::optim
