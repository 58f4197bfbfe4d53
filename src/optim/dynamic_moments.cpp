// DynamicMoments: which blocks a rank has parts of, their magnitudes, and boxes.
// SPDX-License-Identifier: Apache-2.0
#include "optim/dynamic_moments.hpp"

#include <algorithm>
#include <map>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "optim/state_scales.hpp"

namespace trireme::optim {
namespace {

using kernels::dynamic_block;

std::int64_t blocks_in(const NamedBox& named) {
  return divide_up(named.whole.elements(), dynamic_block);
}

// The place in the whole tensor of element `at` of a box; of the one behind the last, as
// if rows went on.
std::int64_t place_of(const TensorRange& tensor, std::int64_t at) {
  return run_of(tensor, {at, at}).index(0);
}

DynamicType type_of(std::size_t state) {
  return state == 0 ? DynamicType::signed_numbers : DynamicType::unsigned_numbers;
}

}  // namespace

DynamicMoments::DynamicMoments(StoreContext& context, Device device, std::size_t states)
    : context_(&context), states_(states) {
  const FlatLayout& layout = context.layout;
  for (const LayoutTensor& tensor : layout.tensors)
    names_.push_back({tensor.named->tensor, {blocks_in(*tensor.named)}, {0}, {0}, {0}});
  std::int64_t most = 0;
  for (const FlatParameter& flat : layout.flats) {
    parts_.push_back(flat.frozen ? FlatParts() : parts_of(flat));
    most = std::max(most, parts_.back().blocks);
  }
  for (std::size_t s = 0; s < states; ++s) {
    const char* const label =
        s == 0 ? "magnitudes of first moments" : "magnitudes of second moments";
    absmax_[s] = Buffer(device, DType::f32, {kept_}, MemoryClass::optimizer, label);
    plain_[s] = Buffer(device, DType::f32, {plain_elements_}, MemoryClass::optimizer,
                       s == 0 ? "first moments in fp32" : "second moments in fp32");
  }
  all_ = Buffer(device, DType::f32, {static_cast<std::int64_t>(states) * most},
                MemoryClass::workspace, "magnitudes of moments");
}

DynamicMoments::FlatParts DynamicMoments::parts_of(const FlatParameter& flat) {
  FlatParts out;
  std::map<std::size_t, std::int64_t> begins;  // of a tensor's blocks in all_
  const Range shard = flat.shard();
  for (const TensorRange& tensor : flat.tensors) {
    Part part;
    part.shard = {std::max(shard.begin, tensor.range.begin),
                  std::min(shard.end, tensor.range.end)};
    if (part.shard.end < part.shard.begin) part.shard.end = part.shard.begin;
    const bool mine = part.shard.count() > 0;
    if (!codes(tensor)) {
      part.begin = plain_elements_;
      plain_elements_ += part.shard.count();
    } else {
      const auto [at, fresh] = begins.try_emplace(tensor.tensor, out.blocks);
      part.all = at->second;
      const std::int64_t blocks = blocks_in(*tensor.named);
      if (fresh) out.blocks += blocks;
      if (mine)
        part.blocks = {
            place_of(tensor, part.shard.begin) / dynamic_block,
            std::min(blocks, divide_up(place_of(tensor, part.shard.end), dynamic_block))};
      part.begin = kept_;
      kept_ += part.blocks.count();
    }
    out.parts.push_back(part);
  }
  return out;
}

const DynamicMoments::Part& DynamicMoments::part_of(const FlatParameter& flat,
                                                    const TensorRange& tensor) const {
  return parts_[flat.index]
      .parts[static_cast<std::size_t>(&tensor - flat.tensors.data())];
}

TensorView DynamicMoments::all_of(std::size_t state, const FlatParameter& flat,
                                  const TensorRange& tensor) const {
  const auto s = static_cast<std::int64_t>(state);
  return all_.view().rows(s * parts_[flat.index].blocks + part_of(flat, tensor).all,
                          blocks_in(*tensor.named));
}

void DynamicMoments::start(const FlatParameter& flat) {
  const std::int64_t count =
      static_cast<std::int64_t>(states_) * parts_[flat.index].blocks;
  if (count > 0) kernels::fill(context_->stream, all_.view().rows(0, count), 0.0);
}

void DynamicMoments::note(std::size_t state, const FlatParameter& flat,
                          const TensorRange& tensor, Range part,
                          const TensorView& values) {
  if (!codes(tensor)) return;
  kernels::absmax_of_run(context_->stream, values, run_of(tensor, part),
                         {0, tensor.named->whole.elements()},
                         all_of(state, flat, tensor));
}

void DynamicMoments::agree(const FlatParameter& flat) {
  const std::int64_t count =
      static_cast<std::int64_t>(states_) * parts_[flat.index].blocks;
  if (count == 0) return;
  for (comm::Group* group :
       {flat.shard_group, &context_->mesh.group(comm::Axis::tensor)}) {
    if (group->size() == 1) continue;
    group->all_reduce(context_->stream, all_.view().rows(0, count), comm::Reduce::max)
        .wait();
  }
}

void DynamicMoments::store(std::size_t state, const FlatParameter& flat,
                           const TensorRange& tensor, Range part,
                           const TensorView& values, const TensorView& codes) {
  if (!this->codes(tensor))
    return kernels::copy(context_->stream, values,
                         plain_of(state, part_of(flat, tensor), part));
  kernels::encode_run(context_->stream, values, run_of(tensor, part), type_of(state),
                      {0, tensor.named->whole.elements()}, all_of(state, flat, tensor),
                      codes);
}

void DynamicMoments::keep(const FlatParameter& flat) {
  for (const TensorRange& tensor : flat.tensors) {
    const Part& part = part_of(flat, tensor);
    if (part.blocks.count() == 0) continue;
    for (std::size_t s = 0; s < states_; ++s)
      kernels::copy(context_->stream,
                    all_of(s, flat, tensor).rows(part.blocks.begin, part.blocks.count()),
                    kept_of(s, part));
  }
}

void DynamicMoments::load(std::size_t state, const FlatParameter& flat,
                          const TensorRange& tensor, Range part, const TensorView& codes,
                          const TensorView& values) {
  const Part& mine = part_of(flat, tensor);
  if (!this->codes(tensor))
    return kernels::copy(context_->stream, plain_of(state, mine, part), values);
  kernels::decode_run(context_->stream, codes, run_of(tensor, part), type_of(state),
                      {mine.blocks.begin, tensor.named->whole.elements()},
                      kept_of(state, mine), values);
}

void DynamicMoments::append_boxes(std::size_t state, const FlatParameter& flat,
                                  const TensorView& codes, std::int64_t& owned,
                                  std::vector<StateBox>& boxes) const {
  optim::append_boxes(
      state_sections[state], flat,
      [&](const NamedBox& named, Range elements) {
        for (const TensorRange& tensor : flat.tensors)
          if (tensor.named == &named && !this->codes(tensor))
            return plain_of(state, part_of(flat, tensor), elements);
        return codes.rows(elements.begin - flat.shard().begin, elements.count());
      },
      owned, boxes);
}

// Every block is written once: of the ranks that have a part of its rows by the one that
// has the first column, and of those by the one whose elements reach its beginning.
void DynamicMoments::append_scales(std::size_t state,
                                   std::vector<StateBox>& boxes) const {
  std::int64_t owned = 0;
  for (const FlatParameter& flat : context_->layout.flats) {
    if (flat.frozen) continue;
    for (const TensorRange& tensor : flat.tensors) {
      const Part& part = part_of(flat, tensor);
      if (part.blocks.count() == 0) continue;
      const NamedBox& named = *tensor.named;
      const comm::Group& replicas = *flat.replicate_group;
      const bool mine = named.owned && owned % replicas.size() == replicas.rank();
      if (named.owned) ++owned;
      const bool first_column = named.whole.rank() == 1 || named.global_begin[1] == 0;
      const std::int64_t own =
          divide_up(place_of(tensor, part.shard.begin), dynamic_block);
      const TensorView kept = kept_of(state, part);
      const auto add = [&](std::int64_t begin, std::int64_t end, bool write) {
        if (begin < end)
          boxes.push_back({&names_[tensor.tensor], scale_sections[state], Shape{begin},
                           kept.rows(begin - part.blocks.begin, end - begin), write});
      };
      add(part.blocks.begin, own, false);
      add(own, part.blocks.end, mine && first_column);
    }
  }
}

std::size_t DynamicMoments::bytes() const {
  std::size_t bytes = 0;
  for (std::size_t s = 0; s < states_; ++s)
    bytes += absmax_[s].bytes() + plain_[s].bytes();
  return bytes;
}

}  // namespace trireme::optim
