// ParameterStore: gradients that are sent in bf16 or FP8.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "base/split.hpp"
#include "kernels/elementwise.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {

// wide = its sum over the group, as it is sent: every rank gets the same bits.
void ParameterStore::all_reduce_gradient(const Unit& unit, comm::Group& group,
                                         Range range, const TensorView& wide) {
  const DType type = config_.type(TensorClass::gradient_traffic);
  if (group.size() == 1) return;
  if (type == config_.wide()) return group.all_reduce(stream_, wide).wait();
  if (is_fp8(type) || config_.error_feedback)
    return sum_codes(unit, group, range, wide, true);
  const TensorView sent = sent_room(0, type, range.count());
  kernels::copy(stream_, wide, sent);
  group.all_reduce(stream_, sent).wait();
  kernels::copy(stream_, sent, wide);
}

// This rank's share of `wide`, the whole unit's, = its sum over the unit's shards: the
// bits that all_reduce_gradient() gives. The rest is left undefined.
void ParameterStore::reduce_scatter_gradient(const Unit& unit, const TensorView& wide) {
  const DType type = config_.type(TensorClass::gradient_traffic);
  comm::Group& group = *unit.shards;
  if (group.size() == 1) return;
  const TensorView share = wide.rows(unit.share().begin, unit.share_elements());
  if (type == config_.wide()) return group.reduce_scatter(stream_, wide, share).wait();
  if (is_fp8(type) || config_.error_feedback)
    return sum_codes(unit, group, {0, unit.elements}, wide, false);
  const TensorView sent = sent_room(0, type, unit.elements);
  const TensorView mine = sent.rows(unit.share().begin, unit.share_elements());
  kernels::copy(stream_, wide, sent);
  group.reduce_scatter(stream_, sent, mine).wait();
  kernels::copy(stream_, mine, share);
}

// Sums of FP8 (Peng et al., 2023, section 2.1): the ranks agree on each tensor's largest
// magnitude and so on its scale; each sums its part of all ranks' codes in f32, in the
// order of the ranks; results are codes again, at a scale that is larger by the number of
// ranks (as a power of two), so that no sum overflows. Twice (P - 1) / P bytes per
// element and rank, half of it where results are not needed everywhere. With error
// feedback what both roundings take is added to the next sum, and bf16 goes the same way.
void ParameterStore::sum_codes(const Unit& unit, comm::Group& group, Range range,
                               const TensorView& wide, bool everywhere) {
  const DType type = config_.type(TensorClass::gradient_traffic);
  const std::int64_t ranks = group.size();
  const std::int64_t part = part_of_sum(range.count(), ranks);
  const TensorView sent = sent_room(0, type, part * ranks);
  const TensorView received = sent_room(1, type, part * ranks);
  const bool feeds = config_.error_feedback;
  const TensorView lost = feeds ? sent_loss(unit, range, everywhere) : TensorView();
  if (feeds) kernels::accumulate(stream_, lost, wide);
  // 1. Scales, and codes at them.
  std::vector<float> amaxes = gradient_amaxes(unit, range, wide);
  agree(group, amaxes);
  if (has_scale(type)) {
    const auto room = std::bit_ceil(static_cast<std::uint64_t>(ranks));
    set_gradient_scales(unit, amaxes, type, 1, sent_scales_);
    set_gradient_scales(unit, amaxes, type, static_cast<double>(room), result_scales_);
  }
  clear(stream_, sent);
  for_each_segment(unit, range, [&](const Segment& segment, Range at) {
    const std::int64_t begin = at.begin - range.begin;
    encode_as(TensorClass::gradient_traffic, wide.rows(begin, at.count()), sent_scales_,
              segment.tensor, sent.rows(begin, at.count()));
  });
  if (feeds) keep_loss(unit, range, wide, sent, sent_scales_, amaxes, lost);
  group.all_to_all(stream_, sent, received).wait();
  // 2. This rank's part of the sum.
  const std::int64_t first = std::min(group.rank() * part, range.count());
  const std::int64_t last = std::min(first + part, range.count());
  const Range mine{range.begin + first, range.begin + last};
  if (first < last) kernels::fill(stream_, wide.rows(first, last - first), 0.0);
  for (std::int64_t p = 0; p < ranks; ++p) {
    for_each_part(unit, mine, [&](const Segment& segment, Range at) {
      const TensorView term = wide_room(0, at.count());
      decode(stream_, received.rows(p * part + at.begin - mine.begin, at.count()),
             sent_scales_, segment.tensor, term);
      kernels::accumulate(stream_, term, wide.rows(at.begin - range.begin, at.count()));
    });
  }
  const TensorView sum = wide.rows(first, last - first);
  const TensorView lost_here =
      feeds ? result_loss(unit, last - first, everywhere) : TensorView();
  if (feeds && first < last) kernels::accumulate(stream_, lost_here, sum);
  // 3. As codes again, for the others or for the same bits.
  const TensorView result = sent.rows(group.rank() * part, part);
  clear(stream_, result);
  for_each_segment(unit, mine, [&](const Segment& segment, Range at) {
    const TensorView numbers = wide.rows(at.begin - range.begin, at.count());
    const TensorView codes = result.rows(at.begin - mine.begin, at.count());
    encode_as(TensorClass::gradient_traffic, numbers, result_scales_, segment.tensor,
              codes);
  });
  if (feeds) keep_loss(unit, mine, sum, result, result_scales_, amaxes, lost_here);
  if (!everywhere) return decode_codes(unit, mine, result, result_scales_, sum);
  group.all_gather(stream_, result, sent).wait();
  decode_codes(unit, range, sent, result_scales_, wide);
}

// wide = codes at their scales, elements [range) of the unit.
void ParameterStore::decode_codes(const Unit& unit, Range range, const TensorView& codes,
                                  const Scales& scales, const TensorView& wide) {
  for_each_segment(unit, range, [&](const Segment& segment, Range at) {
    const std::int64_t begin = at.begin - range.begin;
    decode(stream_, codes.rows(begin, at.count()), scales, segment.tensor,
           wide.rows(begin, at.count()));
  });
}

}  // namespace trireme::optim
