// GradientSums: gradients that are kept or sent in less than the accumulator's type.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "kernels/elementwise.hpp"
#include "optim/gradient_sums.hpp"

namespace trireme::optim {

// values = values as the gradient of a microbatch is kept, in the microbatch's memory
// where it has some.
void GradientSums::round_microbatch(const FlatParameter& flat, const TensorView& values) {
  const StoreConfig& config = context_.config;
  const DType type = config.type(TensorClass::gradient);
  if (type == config.accumulator()) return;
  const TensorView kept = config.keeps_microbatch()
                              ? unsharded_in(microbatch_, flat)
                              : traffic_.staging(0, type, flat.elements);
  if (has_scale(type))
    codec_.set_scales(flat, codec_.amaxes(flat, flat.whole(), values), type, 1,
                      microbatch_scales_);
  codec_.encode_range(TensorClass::gradient, flat, flat.whole(), values,
                      microbatch_scales_, kept);
  codec_.decode_range(flat, flat.whole(), kept, microbatch_scales_, values);
}

// sum += values, or the first of a step = values
void GradientSums::add(const FlatParameter& flat, Range range, const TensorView& values,
                       const TensorView& sum) {
  Stream& stream = context_.stream;
  if (std::exchange(flats_[flat.index].stale, false))
    return kernels::copy(stream, values, sum);
  if (sum_scales_.empty()) return kernels::accumulate(stream, values, sum);
  codec_.for_each_chunk(flat, range, [&](const TensorRange& tensor, Range part) {
    const std::int64_t at = part.begin - range.begin, count = part.count();
    const TensorView before = codec_.staging(0, count);
    optim::decode(stream, sum.rows(at, count), sum_scales_, tensor.tensor, before);
    kernels::accumulate(stream, before, values.rows(at, count));
  });
  encode_sum(flat, range, values, sum);
}

void GradientSums::decode_sum(const FlatParameter& flat, Range range,
                              const TensorView& sum, const TensorView& values) {
  kernels::fill(context_.stream, values, 0.0);  // between the tensors
  codec_.decode_range(flat, range, sum, sum_scales_, values);
}

// A scale is that of the tensor on all ranks that have a shard of it, so that who has
// what changes no bit.
void GradientSums::encode_sum(const FlatParameter& flat, Range range,
                              const TensorView& values, const TensorView& sum) {
  if (!sum_scales_.empty()) {
    std::vector<float> amaxes = codec_.amaxes(flat, range, values);
    if (range.count() < flat.elements) codec_.agree(*flat.shard_group, amaxes);
    codec_.set_scales(flat, amaxes, context_.config.type(TensorClass::gradient_sum), 1,
                      sum_scales_);
  }
  codec_.encode_range(TensorClass::gradient_sum, flat, range, values, sum_scales_, sum);
}

void GradientSums::with_values(const FlatParameter& flat, Range range,
                               const TensorView& sum,
                               const std::function<void(const TensorView&)>& body) {
  if (!context_.config.low_precision_sums()) return body(sum);
  const TensorView values = values_.view().rows(0, range.count());
  decode_sum(flat, range, sum, values);
  body(values);
  encode_sum(flat, range, values, sum);
}

// The sums of all ranks that hold the same weights.
void GradientSums::reduce_low_precision() {
  const bool decoded = context_.config.low_precision_sums();
  for (const FlatParameter& flat : context_.layout.flats) {
    if (flat.frozen) continue;
    if (context_.config.sharding == Sharding::optimizer && flat.shard_group->size() > 1) {
      const TensorView sum = unsharded_in(sums_, flat);
      const TensorView values = decoded ? values_.view().rows(0, flat.elements) : sum;
      if (decoded) decode_sum(flat, flat.whole(), sum, values);
      traffic_.reduce_scatter(flat, values);
      if (decoded)
        encode_sum(flat, flat.shard(),
                   values.rows(flat.shard().begin, flat.shard_elements()), shard(flat));
    }
    if (flat.sum_group->size() == 1) continue;
    with_values(flat, flat.shard(), shard(flat), [&](const TensorView& values) {
      traffic_.all_reduce(flat, flat.shard(), values);
    });
  }
}

// Adds the squares of the elements that this rank owns to `sum`; where they are plain
// numbers, they join `plain`, for one sweep.
void GradientSums::add_squares(const FlatParameter& flat, const TensorView& shard,
                               const TensorView& sum, std::vector<TensorView>& plain) {
  Stream& stream = context_.stream;
  const bool coded = !sum_scales_.empty();
  for_each_view(flat, [&](const ParameterView& view, Range range, std::int64_t at) {
    for (const ParamBox& box : boxes_of(*view.param, range)) {
      if (!box.named->owned) continue;
      const std::int64_t end = box.extent.elements();
      const TensorView numbers = shard.rows(at + box.begin - range.begin, end);
      if (!coded) {
        plain.push_back(numbers);
        continue;
      }
      const std::int64_t most = codec_.chunk_elements();
      for (std::int64_t done = 0; done < end; done += most) {
        const TensorView values = numbers.rows(done, std::min(most, end - done));
        const TensorView decoded = codec_.staging(0, values.elements());
        optim::decode(stream, values, sum_scales_, context_.layout.tensor_of(*box.named),
                      decoded);
        kernels::add_sum_of_squares(stream, decoded, sum);
      }
    }
  });
}

// Partial sums are kept as the others are.
void GradientSums::decode(const NamedBox& named, const TensorView& box,
                          const TensorView& values) {
  if (sum_scales_.empty()) return kernels::copy(context_.stream, box, values);
  const TensorView decoded = values_.view().rows(0, box.elements());
  optim::decode(context_.stream, box.reshape({box.elements()}), sum_scales_,
                context_.layout.tensor_of(named), decoded);
  kernels::copy(context_.stream, decoded.reshape(box.shape()), values);
}

void GradientSums::encode(const NamedBox& named, const TensorView& values,
                          const TensorView& box) {
  if (sum_scales_.empty()) return kernels::copy(context_.stream, values, box);
  const TensorView decoded = values_.view().rows(0, box.elements());
  kernels::copy(context_.stream, values, decoded.reshape(box.shape()));
  optim::encode(context_.stream, decoded, sum_scales_, context_.layout.tensor_of(named),
                box.reshape({box.elements()}));
}

void GradientSums::rescale(const NamedBox& named, const TensorView& whole) {
  if (sum_scales_.empty()) return;
  sum_scales_.set(
      context_.stream, context_.layout.tensor_of(named),
      scale_or_nan(codec_.amax(whole), context_.config.type(TensorClass::gradient_sum)));
}

std::vector<StateBox> GradientSums::boxes() {
  std::vector<StateBox> boxes;
  std::int64_t owned = 0;
  const bool decoded = context_.config.low_precision_sums();
  if (decoded && shown_.view().empty())
    shown_ = Buffer(context_.stream.device(), context_.config.accumulator(),
                    {context_.layout.trained_shard_elements}, MemoryClass::workspace,
                    "gradients as they are shown");
  for (const FlatParameter& flat : context_.layout.flats) {
    if (flat.frozen) continue;
    if (decoded) decode_sum(flat, flat.shard(), shard(flat), shard_in(shown_, flat));
    append_boxes("gradient", flat, decoded ? shard_in(shown_, flat) : shard(flat), owned,
                 boxes);
  }
  return boxes;
}

}  // namespace trireme::optim
