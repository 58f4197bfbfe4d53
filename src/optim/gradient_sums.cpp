// GradientSums: memory, contributions to a step, and the sum over the mesh.
// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_sums.hpp"

#include <algorithm>
#include <limits>

#include "base/device_memory.hpp"
#include "comm/recording.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::optim {

GradientSums::GradientSums(StoreContext& context, NumberCodec& codec, Device device)
    : context_(context),
      codec_(codec),
      traffic_(context, codec, device),
      flats_(context.layout.flats.size()) {
  allocate(device);
  for (const FlatParameter& flat : context.layout.flats)
    for (const ParameterView& view : flat.views) params_[view.param].flat = flat.index;
  if (context.config.sharding == Sharding::none) cut_buckets();
  if (!context.config.opens_gradients()) bind_whole();
  partial_.emplace(
      context, [this](const FlatParameter& flat) { return shard(flat); }, device);
}

void GradientSums::allocate(Device device) {
  const StoreConfig& config = context_.config;
  const FlatLayout& layout = context_.layout;
  const DType sum = config.type(TensorClass::gradient_sum);
  const DType microbatch = config.type(TensorClass::gradient);
  sums_ = Buffer(device, sum,
                 {config.shards_gradients() ? layout.trained_shard_elements
                                            : layout.trained_unsharded_elements},
                 MemoryClass::gradients, "gradients");
  if (config.keeps_microbatch())
    microbatch_ = Buffer(device, microbatch, {layout.trained_unsharded_elements},
                         MemoryClass::gradients, "gradients of a microbatch");
  if (config.opens_gradients())
    opened_.emplace(context_, device,
                    [this](BucketBuffer& buffer) { add_reduced(buffer); });
  if (config.exact_sums) exact_.emplace(context_.stream, layout, device);
  if (!config.low_precision()) return;
  const std::size_t tensors = layout.tensors.size();
  sum_scales_ = Scales(device, sum, tensors, "scales of gradient sums");
  microbatch_scales_ = Scales(device, microbatch, tensors, "scales of gradients");
  if (!config.low_precision_sums()) return;
  std::int64_t largest = 0;
  for (const FlatParameter& flat : layout.flats)
    largest = std::max(largest, flat.elements);
  values_ = Buffer(device, config.accumulator(), {largest}, MemoryClass::workspace,
                   "gradient of a flat parameter");
}

void GradientSums::bind_whole() {
  for (const FlatParameter& flat : context_.layout.flats) {
    if (flat.frozen) continue;
    for (const ParameterView& view : flat.views)
      view.param->gradient = unsharded_in(sums_, flat)
                                 .rows(view.begin, view.elements)
                                 .reshape(view.param->shape);
  }
}

// Buckets are cut from the end: backward completes the last weights first. All Params of
// a bucket are summed over the same ranks.
void GradientSums::cut_buckets() {
  const auto element = static_cast<std::int64_t>(size_of(context_.config.accumulator()));
  const std::int64_t least =
      std::max<std::int64_t>(context_.config.bucket_bytes / element, 1);
  std::int64_t end = context_.layout.trained_unsharded_elements;
  for (std::size_t f = context_.layout.flats.size(); f-- > 0;) {
    const FlatParameter& flat = context_.layout.flats[f];
    if (flat.frozen) continue;
    for (std::size_t i = flat.views.size(); i-- > 0;) {
      const ParameterView& view = flat.views[i];
      const bool open = !reduce_buckets_.empty() &&
                        reduce_buckets_.back().group == flat.sum_group &&
                        reduce_buckets_.back().end - reduce_buckets_.back().begin < least;
      if (!open) reduce_buckets_.push_back({end, end, flat.sum_group, 0, 0, {}});
      ReduceBucket& bucket = reduce_buckets_.back();
      bucket.begin = end = flat.unsharded_begin + view.begin;
      ++bucket.params;
      params_.at(view.param).bucket = reduce_buckets_.size() - 1;
    }
  }
}

TensorView GradientSums::shard(const FlatParameter& flat) const {
  return context_.config.shards_gradients() ? shard_in(sums_, flat)
                                            : shard_of_unsharded(sums_, flat);
}

void GradientSums::begin(std::int64_t microbatches) {
  const bool overwrites = context_.config.overwrites && sum_scales_.empty();
  const bool opens = context_.config.opens_gradients();
  if (exact_) exact_->clear();
  if (!overwrites) clear();
  for (auto& [param, state] : params_)
    state.missing = param->frozen ? 0 : microbatches * param->contributions;
  for (ReduceBucket& bucket : reduce_buckets_) bucket.pending = bucket.params;
  for (const FlatParameter& flat : context_.layout.flats) {
    FlatState& state = flats_[flat.index];
    state.pending = flat.frozen ? 0 : static_cast<std::int64_t>(flat.views.size());
    state.over_replicas = false;
    state.stale = overwrites && opens;
    for (const ParameterView& view : flat.views)
      view.param->stale_gradient = overwrites && !opens && !flat.frozen;
  }
}

const GradientSums::ParamState* GradientSums::count(Param& param) {
  const auto found = params_.find(&param);
  require(found != params_.end(), "'{}' is not in this store", param.name);
  ParamState& state = found->second;
  require(state.missing > 0, "'{}' has more gradient contributions than expected",
          param.name);
  require(!param.stale_gradient, "'{}' has the gradient of another step", param.name);
  if (--state.missing > 0) return nullptr;
  --flats_[state.flat].pending;
  return &state;
}

void GradientSums::ready(Param& param) {
  if (comm::recorded_calls() == nullptr) context_.mesh.everyone().progress();
  const ParamState* const complete = count(param);
  if (complete == nullptr) return;
  const ParamState& state = *complete;
  FlatState& of_flat = flats_[state.flat];
  const StoreConfig& config = context_.config;
  if (converts_sums(config)) return;  // at the end of the step
  if (config.sharding == Sharding::none) {
    ReduceBucket& bucket = reduce_buckets_[state.bucket];
    if (--bucket.pending > 0) return;
    bucket.handle = bucket.group->all_reduce(
        context_.stream, sums_.view().rows(bucket.begin, bucket.end - bucket.begin));
  } else if (config.sharding == Sharding::optimizer && of_flat.pending == 0) {
    const FlatParameter& flat = context_.layout.flats[state.flat];
    of_flat.handle = flat.shard_group->reduce_scatter(
        context_.stream, unsharded_in(sums_, flat), shard(flat));
  }
}

void GradientSums::open(int module) {
  if (!opened_) return;
  for (const int bucket : context_.layout.module_buckets(module))
    for (const std::size_t f : context_.layout.bucket(bucket).flats)
      require(!flats_[f].over_replicas, "'{}' is opened after its last contribution",
              context_.layout.flats[f].name);
  opened_->open(module);
}

void GradientSums::close(int module) {
  if (!opened_) return;
  opened_->close(module, [this](BucketBuffer& buffer) {
    context_.config.shards_gradients() ? start_reduction(buffer) : add_whole(buffer);
  });
}

void GradientSums::add_whole(BucketBuffer& buffer) {
  opened_->for_each_flat(buffer,
                         [&](const FlatParameter& flat, const TensorView& gradient) {
                           if (exact_) return exact_->add(flat, gradient);
                           if (context_.config.keeps_microbatch())
                             round_microbatch(flat, gradient);
                           add(flat, flat.whole(), gradient, unsharded_in(sums_, flat));
                         });
  buffer.finished = true;
}

void GradientSums::start_reduction(BucketBuffer& buffer) {
  buffer.handles.clear();
  opened_->for_each_flat(buffer,
                         [&](const FlatParameter& flat, const TensorView& gradient) {
                           round_microbatch(flat, gradient);
                           if (context_.config.low_precision_traffic()) {
                             traffic_.reduce_scatter(flat, gradient);
                             buffer.handles.emplace_back();
                             return;
                           }
                           buffer.handles.push_back(flat.shard_group->reduce_scatter(
                               context_.stream, gradient,
                               gradient.rows(flat.shard().begin, flat.shard_elements())));
                         });
}

// Then the replicas of the shards are summed, if that was all of the step.
void GradientSums::add_reduced(BucketBuffer& buffer) {
  std::size_t i = 0;
  opened_->for_each_flat(
      buffer, [&](const FlatParameter& flat, const TensorView& gradient) {
        buffer.handles[i++].wait();
        add(flat, flat.shard(), gradient.rows(flat.shard().begin, flat.shard_elements()),
            shard(flat));
      });
  // A bucket of several modules, or of a table that two use, is opened until the last one
  // has added: only then is every contribution of the step in this rank's shards.
  const auto is_missing = [&](std::size_t f) { return flats_[f].pending > 0; };
  if (converts_sums(context_.config) || opened_->is_under_way(buffer.bucket) ||
      std::ranges::any_of(context_.layout.bucket(buffer.bucket).flats, is_missing))
    return;
  opened_->for_each_flat(buffer, [&](const FlatParameter& flat, const TensorView&) {
    flats_[flat.index].sum_over_replicas(context_.stream, flat, shard(flat));
  });
}

void GradientSums::finish_closed() {
  if (opened_) opened_->finish_closed();
}

void GradientSums::FlatState::sum_over_replicas(Stream& stream, const FlatParameter& flat,
                                                const TensorView& shard) {
  if (over_replicas) return;
  over_replicas = true;
  handle = flat.sum_group->all_reduce(stream, shard);
}

void GradientSums::finish() {
  const FlatLayout& layout = context_.layout;
  const StoreConfig& config = context_.config;
  // 1. What is in flight.
  for (const FlatParameter& flat : layout.flats) {
    FlatState& state = flats_[flat.index];
    require(state.pending == 0, "{} weights of '{}' have no complete gradient",
            state.pending, flat.name);
    if (!config.shards_gradients()) state.handle.wait();
  }
  for (ReduceBucket& bucket : reduce_buckets_) bucket.handle.wait();
  finish_closed();
  // 2. The ranks that hold the same weights, as far as they have not begun.
  if (exact_) {
    exact_->finish(sums_.view());
  } else if (converts_sums(config)) {
    reduce_low_precision();
  } else if (config.sharding != Sharding::none) {
    for (const FlatParameter& flat : layout.flats)
      if (!flat.frozen)
        flats_[flat.index].sum_over_replicas(context_.stream, flat, shard(flat));
  }
  for (FlatState& state : flats_) state.handle.wait();
  // 3. The tensor axis, and the embedding group.
  partial_->sum(*this);
  comm::Group& group = context_.mesh.embedding_group();
  for (const FlatParameter& flat : layout.flats) {
    if (!flat.in_embedding_group || flat.frozen || group.size() == 1) continue;
    with_values(flat, flat.shard(), shard(flat), [&](const TensorView& sum) {
      group.all_reduce(context_.stream, sum).wait();
    });
  }
}

double GradientSums::squares(const TensorView& sum) {
  Stream& stream = context_.stream;
  if (sum.empty() && norm_.view().empty())
    norm_ = Buffer(stream.device(), DType::f64, {1}, MemoryClass::communication, "norm");
  if (sum.empty()) kernels::fill(stream, norm_.view(), 0.0);
  const TensorView& all = sum.empty() ? norm_.view() : sum;
  std::vector<TensorView> plain;
  for (const FlatParameter& flat : context_.layout.flats) {
    if (flat.frozen || flat.sum_group->rank() != 0) continue;
    add_squares(flat, shard(flat), all, plain);
  }
  kernels::add_sums_of_squares(stream, plain, all);
  double squares = 0;
  if (sum.empty()) copy_bytes(stream, all, TensorView(&squares, DType::f64, {1}));
  return squares;
}

void GradientSums::clear() {
  optim::clear(context_.stream, sums_.view());
  if (sum_scales_.empty()) return;
  sum_scales_.set_all(context_.stream,
                      std::vector<float>(context_.layout.tensors.size(), 1.0f));
}

void GradientSums::inject_nan() {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const FlatParameter& flat = context_.layout.flats.front();
  if (sum_scales_.empty())
    return kernels::fill(context_.stream, shard(flat).rows(0, 1), nan);
  for_each_tensor(flat, flat.shard(), [&](const TensorRange& tensor, Range) {
    sum_scales_.set(context_.stream, tensor.tensor, static_cast<float>(nan));
  });
}

std::size_t GradientSums::workspace_bytes() const {
  return values_.bytes() + shown_.bytes() + sum_scales_.bytes() +
         microbatch_scales_.bytes() + traffic_.bytes() +
         (exact_ ? exact_->workspace_bytes() : 0);
}

}  // namespace trireme::optim
