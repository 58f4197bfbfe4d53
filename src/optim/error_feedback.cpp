// ErrorFeedback: memory for losses, and how they are made.
// SPDX-License-Identifier: Apache-2.0
#include "optim/error_feedback.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "base/philox.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::optim {

// Losses over shards are of unsharded flat parameters, those over replicas of shards.
ErrorFeedback::ErrorFeedback(StoreContext& context, NumberCodec& codec, Device device)
    : context_(context), codec_(codec) {
  const StoreConfig& config = context.config;
  if (!on() || !config.training) return;
  require(config.low_precision_traffic(), Status::bad_content,
          "error feedback with gradients on the wire in {}: nothing is rounded; reduce "
          "them in bf16 or FP8",
          name_of(config.type(TensorClass::gradient_traffic)));
  require(config.type(TensorClass::gradient_traffic) != DType::f16, Status::internal,
          "error feedback of fp16: encode() scales the gradients that keep() reads");
  const comm::Group& everyone = context.mesh.everyone();
  std::string layout =
      format("{} {}", static_cast<int>(config.sharding), everyone.size());
  for (const FlatParameter& flat : context.layout.flats)
    layout += format(" {} {} {} {}", flat.name, flat.elements, flat.shard_group->size(),
                     flat.sum_group->size());
  const std::string owner = format("{}.rank-{}", hash_name(layout), everyone.rank());
  allocate(device, SumOver::shards, owner);
  allocate(device, SumOver::replicas, owner);
}

void ErrorFeedback::allocate(Device device, SumOver over, const std::string& owner) {
  const FlatLayout& layout = context_.layout;
  const bool shards = over == SumOver::shards;
  Losses& losses = shards ? over_shards_ : over_replicas_;
  std::int64_t results = 0;
  bool reduces = false;
  for (const FlatParameter& flat : layout.flats) {
    const std::int64_t ranks = (shards ? flat.shard_group : flat.sum_group)->size();
    losses.result_begin.push_back(results);
    if (flat.frozen) continue;
    results += elements_per_rank(shards ? flat.elements : flat.shard_elements(), ranks);
    reduces = reduces || ranks > 1;
  }
  if (!reduces) return;
  std::int64_t sent = layout.trained_shard_elements;
  if (shards)
    sent = context_.config.sharding == Sharding::none ? 0
                                                      : layout.trained_unsharded_elements;
  const auto make = [&](Buffer& buffer, NamedBox& named, std::int64_t n,
                        const char* what) {
    buffer = Buffer(device, context_.config.accumulator(), {n},
                    MemoryClass::communication, "error feedback");
    named = {format("{}.{}.{}", owner, shards ? "shards" : "copies", what),
             {n},
             {0},
             {0},
             {n}};
  };
  make(losses.sent, losses.sent_tensor, sent, "sent");
  make(losses.result, losses.result_tensor, results, "result");
}

TensorView ErrorFeedback::sent(const FlatParameter& flat, Range range,
                               SumOver over) const {
  if (over == SumOver::shards)
    return over_shards_.sent.view().rows(flat.unsharded_begin + range.begin,
                                         range.count());
  return over_replicas_.sent.view().rows(
      flat.shard_begin + range.begin - flat.shard().begin, range.count());
}

TensorView ErrorFeedback::result(const FlatParameter& flat, std::int64_t count,
                                 SumOver over) const {
  const Losses& losses = over == SumOver::shards ? over_shards_ : over_replicas_;
  return losses.result.view().rows(losses.result_begin[flat.index], count);
}

void ErrorFeedback::keep(const FlatParameter& flat, Range range, const TensorView& values,
                         const TensorView& codes, const Scales& scales,
                         const std::vector<float>& amaxes, const TensorView& loss) {
  Stream& stream = context_.stream;
  codec_.for_each_chunk(flat, range, [&](const TensorRange& tensor, Range part) {
    if (!std::isfinite(amaxes[tensor.tensor])) return;
    const std::int64_t at = part.begin - range.begin, count = part.count();
    const TensorView term = codec_.staging(0, count), kept = loss.rows(at, count);
    decode(stream, codes.rows(at, count), scales, tensor.tensor, term);
    kernels::scale(stream, term, -1.0);
    kernels::copy(stream, values.rows(at, count), kept);
    kernels::accumulate(stream, term, kept);
  });
}

std::vector<StateBox> ErrorFeedback::boxes() const {
  std::vector<StateBox> boxes;
  for (const Losses* losses : {&over_shards_, &over_replicas_}) {
    if (losses->bytes() == 0) continue;
    for (const auto& [named, buffer] : {std::pair(&losses->sent_tensor, &losses->sent),
                                        {&losses->result_tensor, &losses->result}})
      boxes.push_back({named, "optimizer/feedback", Shape{0}, buffer->view(), true});
  }
  return boxes;
}

void ErrorFeedback::clear() {
  for (const Losses* losses : {&over_shards_, &over_replicas_}) {
    if (losses->bytes() == 0) continue;
    kernels::fill(context_.stream, losses->sent.view(), 0.0);
    kernels::fill(context_.stream, losses->result.view(), 0.0);
  }
}

}  // namespace trireme::optim
