// ParameterStore: gradients that are kept in less than the type that modules hand over.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {

// The largest magnitude of each segment of the unit in elements [range), 0 of those that
// lie elsewhere, infinity for NaN, which a maximum over ranks would lose.
std::vector<float> ParameterStore::gradient_amaxes(const Unit& unit, Range range,
                                                   const TensorView& wide) {
  std::vector<float> amaxes(tensors_.size(), 0.0f);
  for_each_segment(unit, range, [&](const Segment& segment, Range part) {
    const float amax =
        amax_of(stream_, wide.rows(part.begin - range.begin, part.count()), amax_one());
    float& most = amaxes[segment.tensor];
    most =
        std::isnan(amax) ? std::numeric_limits<float>::infinity() : std::max(most, amax);
  });
  return amaxes;
}

// The largest of all ranks of the group.
void ParameterStore::agree(comm::Group& group, std::vector<float>& amaxes) {
  if (group.size() == 1) return;
  const TensorView room =
      amax_room_.view().rows(0, static_cast<std::int64_t>(amaxes.size()));
  const bool meta = stream_.device().is_meta();
  const TensorView host(amaxes.data(), DType::f32, room.shape());
  if (!meta) copy_bytes(stream_, host, room);
  group.all_reduce(stream_, room, comm::Reduce::max).wait();
  if (meta) return;
  copy_bytes(stream_, room, host);
  stream_.synchronize();
}

// With `room` times the scale that the amaxes need.
void ParameterStore::set_gradient_scales(const Unit& unit,
                                         const std::vector<float>& amaxes, DType type,
                                         double room, Scales& scales) {
  for_each_segment(unit, {0, unit.elements}, [&](const Segment& segment, Range) {
    const float scale = scale_or_nan(amaxes[segment.tensor], type);
    scales.set(stream_, segment.tensor, static_cast<float>(scale * room));
  });
}

// wide = wide as the gradient of a microbatch is kept, in the microbatch's memory where
// it has some.
void ParameterStore::round_gradient(const Unit& unit, const TensorView& wide) {
  const DType type = config_.type(TensorClass::gradient);
  if (type == config_.wide()) return;
  const Range whole{0, unit.elements};
  const TensorView kept = has_microbatch()
                              ? microbatch_.view().rows(unit.whole_at, unit.elements)
                              : sent_room(0, type, unit.elements);
  if (has_scale(type))
    set_gradient_scales(unit, gradient_amaxes(unit, whole, wide), type, 1,
                        microbatch_scales_);
  for_each_segment(unit, whole, [&](const Segment& segment, Range part) {
    const TensorView numbers = wide.rows(part.begin, part.count());
    const TensorView rounded = kept.rows(part.begin, part.count());
    encode_as(TensorClass::gradient, numbers, microbatch_scales_, segment.tensor,
              rounded);
    decode(stream_, rounded, microbatch_scales_, segment.tensor, numbers);
  });
}

// A module's whole gradients join the sums of this rank.
void ParameterStore::deliver(Slot& slot) {
  const TensorView memory = slot_memory(gradient_slots_, slot, opened_);
  std::int64_t begin = 0;
  for (const std::size_t u :
       layout_.bundles[static_cast<std::size_t>(slot.bundle)].units) {
    const Unit& unit = layout_.units[u];
    if (unit.frozen) continue;
    const TensorView wide = memory.rows(begin, unit.elements);
    begin += unit.elements;
    if (has_microbatch()) round_gradient(unit, wide);
    add_to_sum(unit, {0, unit.elements}, wide,
               gradients_.view().rows(unit.whole_at, unit.elements));
  }
  slot.settled = true;
}

// sum += wide, elements [range) of the unit. `wide` is left undefined.
void ParameterStore::add_to_sum(const Unit& unit, Range range, const TensorView& wide,
                                const TensorView& sum) {
  if (sum_scales_.empty()) return kernels::accumulate(stream_, wide, sum);
  for_each_part(unit, range, [&](const Segment& segment, Range part) {
    const std::int64_t at = part.begin - range.begin;
    const TensorView before = wide_room(0, part.count());
    decode(stream_, sum.rows(at, part.count()), sum_scales_, segment.tensor, before);
    kernels::accumulate(stream_, before, wide.rows(at, part.count()));
  });
  encode_sum(unit, range, wide, sum);
}

void ParameterStore::decode_sum(const Unit& unit, Range range, const TensorView& sum,
                                const TensorView& wide) {
  kernels::fill(stream_, wide, 0.0);  // between the tensors
  for_each_segment(unit, range, [&](const Segment& segment, Range part) {
    const std::int64_t at = part.begin - range.begin;
    decode(stream_, sum.rows(at, part.count()), sum_scales_, segment.tensor,
           wide.rows(at, part.count()));
  });
}

// A scale is that of the tensor on all ranks that share it out, so that who shares what
// changes no bit.
void ParameterStore::encode_sum(const Unit& unit, Range range, const TensorView& wide,
                                const TensorView& sum) {
  if (!sum_scales_.empty()) {
    std::vector<float> amaxes = gradient_amaxes(unit, range, wide);
    if (range.count() < unit.elements) agree(*unit.shards, amaxes);
    set_gradient_scales(unit, amaxes, config_.type(TensorClass::gradient_sum), 1,
                        sum_scales_);
  }
  for_each_segment(unit, range, [&](const Segment& segment, Range part) {
    const std::int64_t at = part.begin - range.begin;
    encode_as(TensorClass::gradient_sum, wide.rows(at, part.count()), sum_scales_,
              segment.tensor, sum.rows(at, part.count()));
  });
}

void ParameterStore::with_wide_sum(const Unit& unit, Range range, const TensorView& sum,
                                   const std::function<void(const TensorView&)>& body) {
  if (config_.type(TensorClass::gradient_sum) == config_.wide()) return body(sum);
  const TensorView wide = wide_sum_.view().rows(0, range.count());
  decode_sum(unit, range, sum, wide);
  body(wide);
  encode_sum(unit, range, wide, sum);
}

// The sums of all ranks that hold the same weights.
void ParameterStore::finish_narrow() {
  const bool wide_sums = config_.type(TensorClass::gradient_sum) == config_.wide();
  for (const Unit& unit : layout_.units) {
    if (unit.frozen) continue;
    const Range whole{0, unit.elements};
    if (config_.sharding == Sharding::optimizer && unit.shards->size() > 1) {
      const TensorView sum = gradients_.view().rows(unit.whole_at, unit.elements);
      const TensorView wide = wide_sums ? sum : wide_sum_.view().rows(0, unit.elements);
      if (!wide_sums) decode_sum(unit, whole, sum, wide);
      reduce_scatter_gradient(unit, wide);
      if (!wide_sums)
        encode_sum(unit, unit.share(),
                   wide.rows(unit.share().begin, unit.share_elements()),
                   gradient_share(unit));
    }
    if (unit.copies->size() == 1) continue;
    with_wide_sum(unit, unit.share(), gradient_share(unit), [&](const TensorView& wide) {
      all_reduce_gradient(unit, *unit.copies, unit.share(), wide);
    });
  }
}

void ParameterStore::add_narrow_squares(const Unit& unit, const TensorView& share) {
  for_each_piece(unit, [&](const Piece& piece, Range range, std::int64_t at) {
    for (const FlatBox& box : boxes_of(*piece.param, range)) {
      if (!box.slab->owned) continue;
      const std::int64_t most = part_elements(), end = box.extent.elements();
      for (std::int64_t done = 0; done < end; done += most) {
        const std::int64_t count = std::min(most, end - done);
        const TensorView wide = wide_room(0, count);
        decode(stream_, share.rows(at + box.at - range.begin + done, count), sum_scales_,
               tensor_of(*box.slab), wide);
        kernels::add_sum_of_squares(stream_, wide, scalar_.view());
      }
    }
  });
}

std::vector<StoredBox> ParameterStore::gradient_boxes() {
  std::vector<StoredBox> boxes;
  std::int64_t owned = 0;
  const bool wide_sums = config_.type(TensorClass::gradient_sum) == config_.wide();
  if (!wide_sums && dump_.view().empty())
    dump_ = Buffer(stream_.device(), config_.wide(), {layout_.trained_share_elements},
                   MemoryClass::workspace, "gradients as they are shown");
  for (const Unit& unit : layout_.units) {
    if (unit.frozen) continue;
    if (!wide_sums)
      decode_sum(unit, unit.share(), gradient_share(unit), share_in(dump_, unit));
    append_boxes("gradient", unit,
                 wide_sums ? gradient_share(unit) : share_in(dump_, unit), owned, boxes);
  }
  return boxes;
}

}  // namespace trireme::optim
