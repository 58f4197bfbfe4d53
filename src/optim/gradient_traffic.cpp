// GradientTraffic: reductions of bf16, and of FP8 by codes.
// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_traffic.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/elementwise.hpp"

namespace trireme::optim {

GradientTraffic::GradientTraffic(StoreContext& context, NumberCodec& codec, Device device)
    : context_(context), codec_(codec), feedback_(context, codec, device) {
  const StoreConfig& config = context.config;
  if (!config.low_precision() || !config.training) return;
  const DType type = config.type(TensorClass::gradient_traffic);
  const std::size_t tensors = context.layout.tensors.size();
  sent_scales_ = Scales(device, type, tensors, "scales of sent gradients");
  result_scales_ = Scales(device, type, tensors, "scales of received gradients");
  const bool rounds = config.low_precision_gradients() && !config.keeps_microbatch();
  if (!config.low_precision_traffic() && !rounds) return;
  std::int64_t largest = 0, ranks = 1;
  for (const FlatParameter& flat : context.layout.flats) {
    largest = std::max(largest, flat.elements);
    ranks =
        std::max<std::int64_t>({ranks, flat.shard_group->size(), flat.sum_group->size()});
  }
  const std::size_t size =
      std::max(size_of(type), size_of(config.type(TensorClass::gradient)));
  const std::int64_t elements = largest + alignment_elements * ranks;
  sent_ = Buffer(device, DType::u8, {2 * elements * static_cast<std::int64_t>(size)},
                 MemoryClass::workspace, "gradient of a flat parameter as it is sent");
}

TensorView GradientTraffic::staging(int i, DType type, std::int64_t elements) const {
  const std::int64_t half = sent_.view().elements() / 2;
  return memory_as(sent_.view().rows(i * half, half), type, elements);
}

bool GradientTraffic::sums_codes() const {
  return is_fp8(context_.config.type(TensorClass::gradient_traffic)) || feedback_.on();
}

void GradientTraffic::all_reduce(const FlatParameter& flat, Range range,
                                 const TensorView& values) {
  const DType type = context_.config.type(TensorClass::gradient_traffic);
  comm::Group& group = *flat.sum_group;
  Stream& stream = context_.stream;
  if (group.size() == 1) return;
  if (!context_.config.low_precision_traffic())
    return group.all_reduce(stream, values).wait();
  if (sums_codes()) return sum_codes({flat, group, range, SumOver::replicas, values});
  const TensorView sent = staging(0, type, range.count());
  kernels::copy(stream, values, sent);
  group.all_reduce(stream, sent).wait();
  kernels::copy(stream, sent, values);
}

void GradientTraffic::reduce_scatter(const FlatParameter& flat,
                                     const TensorView& values) {
  const DType type = context_.config.type(TensorClass::gradient_traffic);
  comm::Group& group = *flat.shard_group;
  Stream& stream = context_.stream;
  if (group.size() == 1) return;
  const TensorView shard = values.rows(flat.shard().begin, flat.shard_elements());
  if (!context_.config.low_precision_traffic())
    return group.reduce_scatter(stream, values, shard).wait();
  if (sums_codes())
    return sum_codes({flat, group, flat.whole(), SumOver::shards, values});
  const TensorView sent = staging(0, type, flat.elements);
  const TensorView mine = sent.rows(flat.shard().begin, flat.shard_elements());
  kernels::copy(stream, values, sent);
  group.reduce_scatter(stream, sent, mine).wait();
  kernels::copy(stream, mine, shard);
}

// Sums of FP8 (Peng et al., 2023, section 2.1): the ranks agree on each tensor's largest
// magnitude and so on its scale; each sums its part of all ranks' codes in f32, in the
// order of the ranks; results are codes again, at a scale that is larger by the number of
// ranks (as a power of two), so that no sum overflows. Twice (P - 1) / P bytes per
// element and rank, half of it where results are not needed everywhere. With error
// feedback what both roundings take is added to the next sum, and bf16 goes the same way.
void GradientTraffic::sum_codes(const Sum& sum) {
  const auto& [flat, group, range, over, values] = sum;
  Stream& stream = context_.stream;
  const DType type = context_.config.type(TensorClass::gradient_traffic);
  const std::int64_t ranks = group.size();
  const std::int64_t part = elements_per_rank(range.count(), ranks);
  const TensorView sent = staging(0, type, part * ranks);
  const TensorView received = staging(1, type, part * ranks);
  // 1. Scales, and codes at them.
  if (feedback_.on())
    kernels::accumulate(stream, feedback_.sent(flat, range, over), values);
  std::vector<float> amaxes = codec_.amaxes(flat, range, values);
  codec_.agree(group, amaxes);
  send(sum, amaxes, sent);
  group.all_to_all(stream, sent, received).wait();
  // 2. This rank's part of the sum.
  const std::int64_t first = std::min(group.rank() * part, range.count());
  const std::int64_t last = std::min(first + part, range.count());
  const Range mine{range.begin + first, range.begin + last};
  if (first < last) add_received(sum, mine, received);
  const TensorView result = values.rows(first, last - first);
  const TensorView lost =
      feedback_.on() ? feedback_.result(flat, last - first, over) : TensorView();
  if (feedback_.on() && first < last) kernels::accumulate(stream, lost, result);
  // 3. As codes again, for the others or for the same bits.
  const TensorView codes = sent.rows(group.rank() * part, part);
  clear(stream, codes);
  codec_.encode_range(TensorClass::gradient_traffic, flat, mine, result, result_scales_,
                      codes);
  if (feedback_.on())
    feedback_.keep(flat, mine, result, codes, result_scales_, amaxes, lost);
  if (over == SumOver::shards)
    return codec_.decode_range(flat, mine, codes, result_scales_, result);
  group.all_gather(stream, codes, sent).wait();
  codec_.decode_range(flat, range, sent, result_scales_, values);
}

// codes = values at scales that the amaxes give.
void GradientTraffic::send(const Sum& sum, const std::vector<float>& amaxes,
                           const TensorView& codes) {
  const DType type = context_.config.type(TensorClass::gradient_traffic);
  if (has_scale(type)) {
    const auto ranks = std::bit_ceil(static_cast<std::uint64_t>(sum.group.size()));
    codec_.set_scales(sum.flat, amaxes, type, 1, sent_scales_);
    codec_.set_scales(sum.flat, amaxes, type, static_cast<double>(ranks), result_scales_);
  }
  clear(context_.stream, codes);
  codec_.encode_range(TensorClass::gradient_traffic, sum.flat, sum.range, sum.values,
                      sent_scales_, codes);
  if (feedback_.on())
    feedback_.keep(sum.flat, sum.range, sum.values, codes, sent_scales_, amaxes,
                   feedback_.sent(sum.flat, sum.range, sum.over));
}

// Elements [mine) of the flat parameter = the sum of what came, in the order of ranks.
void GradientTraffic::add_received(const Sum& sum, Range mine,
                                   const TensorView& received) {
  const TensorView result = sum.values.rows(mine.begin - sum.range.begin, mine.count());
  const std::int64_t part = received.elements() / sum.group.size();
  kernels::fill(context_.stream, result, 0.0);
  for (std::int64_t rank = 0; rank < sum.group.size(); ++rank) {
    codec_.for_each_chunk(sum.flat, mine, [&](const TensorRange& tensor, Range chunk) {
      const std::int64_t at = chunk.begin - mine.begin, count = chunk.count();
      const TensorView term = codec_.staging(0, count);
      decode(context_.stream, received.rows(rank * part + at, count), sent_scales_,
             tensor.tensor, term);
      kernels::accumulate(context_.stream, term, result.rows(at, count));
    });
  }
}

}  // namespace trireme::optim
