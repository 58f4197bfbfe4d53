// ParameterStore: gradients on their way from a microbatch to the sum over the mesh.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {

// Buckets of whole gradients are cut from the end: backward completes the last weights
// first. All Params of a bucket are summed over the same ranks.
void ParameterStore::cut_buckets() {
  const auto element = static_cast<std::int64_t>(size_of(config_.wide()));
  const std::int64_t least = std::max<std::int64_t>(config_.bucket_bytes / element, 1);
  std::int64_t end = layout_.trained_whole_elements;
  for (std::size_t u = layout_.units.size(); u-- > 0;) {
    const Unit& unit = layout_.units[u];
    if (unit.frozen) continue;
    for (std::size_t i = unit.pieces.size(); i-- > 0;) {
      const Piece& piece = unit.pieces[i];
      const std::int64_t begin = unit.whole_at + piece.begin;
      const bool open = !buckets_.empty() && buckets_.back().copies == unit.copies &&
                        buckets_.back().end - buckets_.back().begin < least;
      if (!open) buckets_.push_back({end, end, unit.copies, 0, 0, {}});
      Bucket& bucket = buckets_.back();
      bucket.begin = end = begin;
      ++bucket.params;
      entry_of(*piece.param).bucket = buckets_.size() - 1;
    }
  }
}

void ParameterStore::begin_step(std::int64_t microbatches) {
  for (auto& [param, entry] : entries_) {
    entry.missing = param->frozen ? 0 : microbatches * param->contributions;
  }
  for (Bucket& bucket : buckets_) bucket.pending = bucket.params;
  for (std::size_t u = 0; u < layout_.units.size(); ++u) {
    const Unit& unit = layout_.units[u];
    unit_pending_[u] = unit.frozen ? 0 : static_cast<std::int64_t>(unit.pieces.size());
  }
}

void ParameterStore::ready(Param& param) {
  Entry& entry = entry_of(param);
  require(entry.missing > 0, "'{}' has more gradient contributions than expected",
          param.name);
  progress();
  if (--entry.missing > 0) return;
  --unit_pending_[entry.unit];
  if (narrow_gradients() || narrow_traffic()) return;  // at the end of the step
  if (config_.sharding == Sharding::none) {
    Bucket& bucket = buckets_[entry.bucket];
    if (--bucket.pending > 0) return;
    bucket.handle = bucket.copies->all_reduce(
        stream_, gradients_.view().rows(bucket.begin, bucket.end - bucket.begin));
  } else if (config_.sharding == Sharding::optimizer && unit_pending_[entry.unit] == 0) {
    const Unit& unit = layout_.units[entry.unit];
    unit_handles_[entry.unit] = unit.shards->reduce_scatter(
        stream_, gradients_.view().rows(unit.whole_at, unit.elements),
        share_of_whole(gradients_, unit));
  }
}

void ParameterStore::bind_gradients(int bundle, const TensorView& memory) {
  std::int64_t begin = 0;
  for (const std::size_t u : layout_.bundles[static_cast<std::size_t>(bundle)].units) {
    const Unit& unit = layout_.units[u];
    if (unit.frozen) continue;
    for (const Piece& piece : unit.pieces) {
      piece.param->gradient = memory.shape().rank() == 0
                                  ? TensorView()
                                  : memory.rows(begin + piece.begin, piece.elements)
                                        .reshape(piece.param->shape);
    }
    begin += unit.elements;
  }
}

ParameterStore::Slot& ParameterStore::open_slot(int bundle) {
  for (std::size_t tries = 0; tries < gradient_slots_.size(); ++tries) {
    Slot& slot = gradient_slots_[next_gradient_slot_++ % gradient_slots_.size()];
    if (slot.users > 0) continue;
    settle_reduction(slot);
    slot.bundle = bundle;
    slot.users = 1;
    return slot;
  }
  fail(Status::internal, "no room for the gradients of another module");
}

void ParameterStore::open_gradients(int module) {
  progress();
  if (!opens_gradients() || !config_.training) return;
  for (const int bundle : layout_.bundles_of_module[static_cast<std::size_t>(module)]) {
    const auto trained =
        layout_.bundles[static_cast<std::size_t>(bundle)].trained_elements;
    if (trained == 0) continue;
    Slot& slot = open_slot(bundle);
    const TensorView memory =
        slot_memory(gradient_slots_, slot, opened_).rows(0, trained);
    kernels::fill(stream_, memory, 0.0);
    bind_gradients(bundle, memory);
  }
}

void ParameterStore::close_gradients(int module) {
  if (!opens_gradients() || !config_.training) return;
  for (const int bundle : layout_.bundles_of_module[static_cast<std::size_t>(module)]) {
    for (Slot& slot : gradient_slots_) {
      if (slot.bundle != bundle || slot.users == 0) continue;
      bind_gradients(bundle, {});
      slot.users = 0;
      if (shares_gradients()) {
        start_reduction(slot);
      } else {
        deliver(slot);
      }
    }
  }
}

void ParameterStore::start_reduction(Slot& slot) {
  const TensorView memory = slot_memory(gradient_slots_, slot, opened_);
  slot.settled = false;
  slot.handles.clear();
  std::int64_t begin = 0;
  for (const std::size_t u :
       layout_.bundles[static_cast<std::size_t>(slot.bundle)].units) {
    const Unit& unit = layout_.units[u];
    if (unit.frozen) continue;
    const TensorView whole = memory.rows(begin, unit.elements);
    begin += unit.elements;
    round_gradient(unit, whole);
    if (narrow_traffic()) {
      reduce_scatter_gradient(unit, whole);
      slot.handles.emplace_back();
      continue;
    }
    slot.handles.push_back(unit.shards->reduce_scatter(
        stream_, whole, whole.rows(unit.share().begin, unit.share_elements())));
  }
}

// Waits for the slot's reductions and adds their results to this rank's shares.
void ParameterStore::settle_reduction(Slot& slot) {
  if (slot.settled) return;
  const TensorView memory = slot_memory(gradient_slots_, slot, opened_);
  std::int64_t begin = 0;
  std::size_t i = 0;
  for (const std::size_t u :
       layout_.bundles[static_cast<std::size_t>(slot.bundle)].units) {
    const Unit& unit = layout_.units[u];
    if (unit.frozen) continue;
    slot.handles[i++].wait();
    add_to_sum(unit, unit.share(),
               memory.rows(begin + unit.share().begin, unit.share_elements()),
               gradient_share(unit));
    begin += unit.elements;
  }
  slot.settled = true;
}

void ParameterStore::finish_gradients() {
  for (std::size_t u = 0; u < layout_.units.size(); ++u) {
    require(unit_pending_[u] == 0, "{} weights of '{}' have no complete gradient",
            unit_pending_[u], layout_.units[u].name);
    unit_handles_[u].wait();
  }
  for (Bucket& bucket : buckets_) bucket.handle.wait();
  for (std::size_t i = 0; i < gradient_slots_.size(); ++i) {  // in the order of opening
    settle_reduction(gradient_slots_[next_gradient_slot_++ % gradient_slots_.size()]);
  }
  if (narrow_gradients() || narrow_traffic()) {
    finish_narrow();
  } else if (config_.sharding != Sharding::none) {
    for (std::size_t u = 0; u < layout_.units.size(); ++u) {
      const Unit& unit = layout_.units[u];
      if (unit.frozen) continue;
      unit_handles_[u] = unit.copies->all_reduce(stream_, gradient_share(unit));
    }
    for (auto& handle : unit_handles_) handle.wait();
  }
  sum_partial_tensors();
  for (const Unit& unit : layout_.units) {
    if (!unit.shared_by_ends || unit.frozen || mesh_.ends().size() == 1) continue;
    with_wide_sum(unit, unit.share(), gradient_share(unit), [&](const TensorView& sum) {
      mesh_.ends().all_reduce(stream_, sum).wait();
    });
  }
}

// A tensor appears here on every rank of the tensor axis if any of its boxes is
// replicated: each rank adds its boxes into zeros at their global place, the sum over the
// ranks among which the tensor is spread is the whole gradient, and each rank takes its
// boxes back. Boxes that one rank alone holds pass through unchanged. So one rule serves
// norms under sequence parallelism, shared key/value heads and routers.
void ParameterStore::find_partial_tensors() {
  std::map<std::string, std::size_t> index;
  std::vector<PartialTensor> all;
  for (const Unit& unit : layout_.units) {
    if (unit.frozen) continue;
    // Every rank lists every tensor, in the same order, also where it has no share of it.
    for (const Piece& piece : unit.pieces) {
      for (const Slab& slab : piece.param->slabs) {
        if (index.try_emplace(slab.tensor, all.size()).second) all.push_back({&slab, {}});
      }
    }
    const TensorView share = gradient_share(unit);
    for_each_piece(unit, [&](const Piece& piece, Range range, std::int64_t at) {
      for (const FlatBox& box : boxes_of(*piece.param, range)) {
        const TensorView data =
            share.rows(at + box.at - range.begin, box.extent.elements())
                .reshape(box.extent);
        all[index.at(box.slab->tensor)].boxes.emplace_back(box, data);
      }
    });
  }
  std::int64_t largest = 0, total = 0;
  for (PartialTensor& tensor : all) {
    if (tensor.any->place != Place::replicate) continue;
    largest = std::max(largest, tensor.any->whole.elements());
    total += tensor.any->whole.elements();
    partial_tensors_.push_back(std::move(tensor));
  }
  if (partial_tensors_.empty() || mesh_.group(comm::Axis::tensor).size() == 1) return;
  const auto element = static_cast<std::int64_t>(size_of(config_.wide()));
  const std::int64_t room =
      std::clamp(config_.bucket_bytes / element, largest, std::max(total, largest));
  partial_ = Buffer(stream_.device(), config_.wide(), {room}, MemoryClass::communication,
                    "partial gradients");
}

// As many tensors at a time as the buffer holds.
void ParameterStore::sum_partial_tensors() {
  if (mesh_.group(comm::Axis::tensor).size() == 1 || partial_tensors_.empty()) return;
  const std::int64_t room = partial_.view().elements();
  std::size_t first = 0;
  std::int64_t used = 0;
  for (std::size_t i = 0; i < partial_tensors_.size(); ++i) {
    const std::int64_t size = partial_tensors_[i].any->whole.elements();
    if (used + size > room) {
      sum_partial_range(first, i);
      first = i;
      used = 0;
    }
    used += size;
  }
  sum_partial_range(first, partial_tensors_.size());
}

void ParameterStore::sum_partial_range(std::size_t first, std::size_t last) {
  if (first == last) return;
  const auto copy_boxes = [&](bool out) {
    std::int64_t begin = 0;
    for (std::size_t i = first; i < last; ++i) {
      const PartialTensor& tensor = partial_tensors_[i];
      const Shape& whole = tensor.any->whole;
      const TensorView full =
          partial_.view().rows(begin, whole.elements()).reshape(whole);
      begin += whole.elements();
      for (const auto& [box, data] : tensor.boxes) {
        TensorView target = full.rows(box.global_begin[0], box.extent[0]);
        if (whole.rank() == 2)
          target = target.columns(box.global_begin[1], box.extent[1]);
        move_partial(box, data, target, out);
      }
    }
  };
  std::int64_t elements = 0;
  for (std::size_t i = first; i < last; ++i) {
    elements += partial_tensors_[i].any->whole.elements();
  }
  const TensorView used = partial_.view().rows(0, elements);
  kernels::fill(stream_, used, 0.0);
  copy_boxes(true);
  mesh_.spread().all_reduce(stream_, used).wait();
  if (!sum_scales_.empty()) {
    std::int64_t begin = 0;
    for (std::size_t i = first; i < last; ++i) {
      const Slab& slab = *partial_tensors_[i].any;
      const std::int64_t count = slab.whole.elements();
      sum_scales_.set(stream_, tensor_of(slab),
                      scale_or_nan(amax_of(stream_, used.rows(begin, count), amax_one()),
                                   config_.type(TensorClass::gradient_sum)));
      begin += count;
    }
  }
  copy_boxes(false);
}

// Between a tensor's box in the sums and in the room where it is summed over the ranks
// among which the tensor is spread.
void ParameterStore::move_partial(const FlatBox& box, const TensorView& data,
                                  const TensorView& target, bool out) {
  if (sum_scales_.empty())
    return kernels::copy(stream_, out ? data : target, out ? target : data);
  const std::size_t tensor = tensor_of(*box.slab);
  const std::int64_t n = data.elements();
  const TensorView wide = wide_sum_.view().rows(0, n);
  const TensorView boxed = wide.reshape(data.shape());
  const TensorView codes = data.reshape({n});
  if (out) {
    decode(stream_, codes, sum_scales_, tensor, wide);
    return kernels::copy(stream_, boxed, target);
  }
  kernels::copy(stream_, target, boxed);
  encode(stream_, wide, sum_scales_, tensor, codes);
}

double ParameterStore::gradient_norm() {
  if (scalar_.view().empty()) {
    scalar_ =
        Buffer(stream_.device(), DType::f64, {1}, MemoryClass::communication, "norm");
  }
  kernels::fill(stream_, scalar_.view(), 0.0);
  for (const Unit& unit : layout_.units) {
    if (unit.frozen || unit.copies->rank() != 0) continue;
    const TensorView share = gradient_share(unit);
    if (!sum_scales_.empty()) {
      add_narrow_squares(unit, share);
      continue;
    }
    for_each_piece(unit, [&](const Piece& piece, Range range, std::int64_t at) {
      for (const FlatBox& box : boxes_of(*piece.param, range)) {
        if (!box.slab->owned) continue;
        kernels::add_sum_of_squares(
            stream_, share.rows(at + box.at - range.begin, box.extent.elements()),
            scalar_.view());
      }
    });
  }
  mesh_.everyone().all_reduce(stream_, scalar_.view()).wait();
  double squares = 0;
  copy_bytes(stream_, scalar_.view(), TensorView(&squares, DType::f64, {1}));
  return std::sqrt(squares);
}

}  // namespace trireme::optim
