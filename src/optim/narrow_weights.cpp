// ParameterStore: weights in use that are kept in FP8 or converted, and their scales.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/fp8_squares.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {

// Where elements [part) of the unit lie in the segment's tensor.
kernels::TensorRun ParameterStore::run_of(const Segment& segment, Range part) {
  const Slab& slab = *segment.slab;
  const bool matrix = slab.whole.rank() == 2;
  return {part.begin - segment.range.begin, matrix ? slab.extent[1] : 1,
          slab.global_begin[0], matrix ? slab.global_begin[1] : 0,
          matrix ? slab.whole[1] : 1};
}

kernels::RoundingKey ParameterStore::key_of(const Segment& segment, RoundedBy use,
                                            std::int64_t step) const {
  // Streams of one tensor's uses differ in bits that no other tensor's hash is likely to.
  const std::uint64_t stream =
      tensors_[segment.tensor].stream ^ (static_cast<std::uint64_t>(use) + 1) << 60;
  return {config_.seed, stream, static_cast<std::uint32_t>(step)};
}

// used = kept in the type of the modules, for the whole unit.
void ParameterStore::convert_weights(const Unit& unit, const TensorView& kept,
                                     const TensorView& used) {
  if (weight_scales_.empty()) return kernels::copy(stream_, kept, used);
  for_each_segment(unit, {0, unit.elements}, [&](const Segment& segment, Range part) {
    const TensorView codes = kept.rows(part.begin, part.count());
    const TensorView numbers = used.rows(part.begin, part.count());
    if (!scales_squares())
      return decode(stream_, codes, weight_scales_, segment.tensor, numbers);
    const StoredTensor& tensor = tensors_[segment.tensor];
    kernels::decode_squares(stream_, memory_as(codes, DType::u8, part.count()),
                            run_of(segment, part), fp8_format(codes.dtype()),
                            weight_scales_.view(tensor.first_scale, tensor.weight_scales),
                            numbers);
  });
}

void ParameterStore::encode_as(TensorClass what, const TensorView& wide,
                               const Scales& scales, std::size_t tensor,
                               const TensorView& y) {
  report_.add(stream_, what, wide, y.dtype(), scales.at(tensor));
  encode(stream_, wide, scales, tensor, y);
}

// codes = wide at the given scales of weights. `wide` is left undefined.
void ParameterStore::encode_weight(const Segment& segment, Range part,
                                   const TensorView& wide, const Scales& scales,
                                   const TensorView& codes) {
  if (!scales_squares())
    return encode_as(TensorClass::weight, wide, scales, segment.tensor, codes);
  const StoredTensor& tensor = tensors_[segment.tensor];
  const TensorView scales_S = scales.view(tensor.first_scale, tensor.weight_scales);
  const kernels::TensorRun run = run_of(segment, part);
  report_.add(stream_, TensorClass::weight, wide, codes.dtype(), run, scales_S);
  kernels::encode_squares(stream_, wide, run, fp8_format(codes.dtype()), scales_S,
                          memory_as(codes, DType::u8, part.count()));
}

void ParameterStore::start_amaxes() {
  amaxes_.assign(scaled_classes * tensors_.size(), 0.0f);
  if (scales_squares()) kernels::fill(stream_, square_amaxes_.view(), 0.0);
}

void ParameterStore::note_weight_amax(const Segment& segment, Range part,
                                      const TensorView& wide) {
  if (scales_squares()) {
    const StoredTensor& tensor = tensors_[segment.tensor];
    return kernels::amax_of_squares(
        stream_, wide, run_of(segment, part),
        square_amaxes_.view().rows(static_cast<std::int64_t>(tensor.first_scale),
                                   tensor.weight_scales));
  }
  float& most =
      amaxes_[scaled_classes * segment.tensor + static_cast<std::size_t>(Scaled::weight)];
  const float amax = amax_of(stream_, wide, amax_one());
  most = std::isnan(amax) ? std::numeric_limits<float>::infinity() : std::max(most, amax);
}

// Weights of FP8 from the master weights of this rank's shares.
void ParameterStore::encode_weights() {
  start_amaxes();
  const auto each_part = [&](const auto& body) {
    for (const Unit& unit : layout_.units) {
      const std::int64_t first = unit.share().begin;
      for_each_part(unit, unit.share(), [&](const Segment& segment, Range part) {
        const TensorView wide = wide_room(0, part.count());
        kernels::copy(
            stream_,
            brought(0, master_share(unit).rows(part.begin - first, part.count())), wide);
        body(unit, segment, part, wide);
      });
    }
  };
  each_part([&](const Unit&, const Segment& segment, Range part, const TensorView& wide) {
    note_weight_amax(segment, part, wide);
  });
  agree_on_scales();
  std::swap(weight_scales_, next_weight_scales_);
  each_part(
      [&](const Unit& unit, const Segment& segment, Range part, const TensorView& wide) {
        const TensorView kept =
            weight_share(unit).rows(part.begin - unit.share().begin, part.count());
        const TensorView room = room_for(3, kept, config_.offload == Offload::weights);
        encode_weight(segment, part, wide, weight_scales_, room);
        give_back(room, kept);
      });
}

// The largest over all ranks among which tensors are spread; the first `dense` numbers
// belong to the dense tensors, the others to the experts'.
void ParameterStore::max_over_holders(const TensorView& room, std::int64_t dense) {
  const auto reduce = [&](comm::Group& group, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    group.all_reduce(stream_, room.rows(begin, end - begin), comm::Reduce::max).wait();
  };
  const std::int64_t all = room.elements();
  if (dense > 0) reduce(*tensors_.front().unit->shards, 0, dense);
  if (dense < all) reduce(*tensors_.back().unit->shards, dense, all);
  reduce(mesh_.group(comm::Axis::tensor), 0, all);
}

void ParameterStore::set_square_scales() {
  std::vector<float> amaxes(weight_scales_count_), scales;
  copy_bytes(stream_, square_amaxes_.view(),
             TensorView(amaxes.data(), DType::f32, square_amaxes_.view().shape()));
  stream_.synchronize();
  for (const float amax : amaxes)
    scales.push_back(scale_or_nan(amax, config_.type(TensorClass::weight)));
  next_weight_scales_.set_all(stream_, std::move(scales));
}

}  // namespace trireme::optim
