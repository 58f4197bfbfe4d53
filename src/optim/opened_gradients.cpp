// GradientSums: memory that modules open to add to, and what becomes of it as they close.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "kernels/elementwise.hpp"
#include "optim/gradient_sums.hpp"

namespace trireme::optim {
namespace {

// What nothing was added to is zero.
void unbind(Stream& stream, const FlatParameter& flat) {
  for (const ParameterView& view : flat.views) {
    Param& param = *view.param;
    if (std::exchange(param.stale_gradient, false))
      kernels::fill(stream, param.gradient, 0.0);
    param.gradient = TensorView();
  }
}

}  // namespace

BucketBuffer& GradientSums::idle_buffer(int bucket, bool smallest) {
  const std::int64_t needed = context_.layout.bucket(bucket).trained_elements;
  const auto rank = [&](const BucketBuffer& buffer) {
    return std::pair(smallest ? buffer.capacity : 0, buffer.last_use);
  };
  BucketBuffer* best = nullptr;
  for (BucketBuffer& buffer : buffers_) {
    if (buffer.users > 0 || buffer.capacity < needed) continue;
    if (best == nullptr || rank(buffer) < rank(*best)) best = &buffer;
  }
  require(best != nullptr, "no memory for the gradients of another module");
  settle(*best);
  best->bucket = bucket;
  best->users = 1;
  best->last_use = ++clock_;
  return *best;
}

void GradientSums::for_each_flat(const BucketBuffer& buffer, const OpenBody& body) const {
  const TensorView memory = memory_of(buffer, opened_);
  std::int64_t begin = 0;
  for (const std::size_t f : context_.layout.bucket(buffer.bucket).flats) {
    const FlatParameter& flat = context_.layout.flats[f];
    if (flat.frozen) continue;
    body(flat, memory.rows(begin, flat.elements));
    begin += flat.elements;
  }
}

// Contributions take the place of what memory holds, where they may: then only the
// padding is cleared.
void GradientSums::bind(BucketBuffer& buffer) {
  const bool overwrites = context_.config.overwrites;
  for_each_flat(buffer, [&](const FlatParameter& flat, const TensorView& gradient) {
    if (!overwrites) kernels::fill(context_.stream, gradient, 0.0);
    std::int64_t end = 0;  // of the view before
    const auto clear_until = [&](std::int64_t begin) {
      if (overwrites && begin > end)
        kernels::fill(context_.stream, gradient.rows(end, begin - end), 0.0);
    };
    for (const ParameterView& view : flat.views) {
      clear_until(view.begin);
      end = view.begin + view.elements;
      view.param->gradient =
          gradient.rows(view.begin, view.elements).reshape(view.param->shape);
      view.param->stale_gradient = overwrites;
    }
    clear_until(flat.elements);
  });
}

void GradientSums::open(int module) {
  if (!context_.config.opens_gradients()) return;
  const auto trained = [&](int bucket) {
    return context_.layout.bucket(bucket).trained_elements;
  };
  // The small ones first, which could otherwise take the memory of the large ones.
  std::vector<int> buckets = context_.layout.module_buckets(module);
  std::stable_sort(buckets.begin(), buckets.end(),
                   [&](int a, int b) { return trained(a) < trained(b); });
  for (const int bucket : buckets) {
    if (trained(bucket) == 0) continue;
    for (const std::size_t f : context_.layout.bucket(bucket).flats)
      require(!flats_[f].over_replicas, "'{}' is opened after its last contribution",
              context_.layout.flats[f].name);
    bind(idle_buffer(bucket, bucket != buckets.back()));
  }
}

void GradientSums::close(int module) {
  if (!context_.config.opens_gradients()) return;
  for (const int bucket : context_.layout.module_buckets(module)) {
    for (BucketBuffer& buffer : buffers_) {
      if (buffer.bucket != bucket || buffer.users == 0) continue;
      for_each_flat(buffer, [&](const FlatParameter& flat, const TensorView&) {
        unbind(context_.stream, flat);
      });
      buffer.users = 0;
      if (context_.config.shards_gradients()) {
        start_reduction(buffer);
      } else {  // a module's whole gradients join the sums of this rank
        for_each_flat(buffer, [&](const FlatParameter& flat, const TensorView& gradient) {
          if (exact_) return exact_->add(flat, gradient);
          if (context_.config.keeps_microbatch()) round_microbatch(flat, gradient);
          add(flat, flat.whole(), gradient, unsharded_in(sums_, flat));
        });
        buffer.settled = true;
      }
    }
  }
}

void GradientSums::start_reduction(BucketBuffer& buffer) {
  buffer.settled = false;
  buffer.handles.clear();
  for_each_flat(buffer, [&](const FlatParameter& flat, const TensorView& gradient) {
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

// Waits for the buffer's reductions and adds their results to this rank's shards. What
// another microbatch made of the same bucket before comes first: sums have one order.
// When this happens depends on the order of modules alone, as all replicas run them.
void GradientSums::settle(BucketBuffer& buffer) {
  if (buffer.settled) return;
  for (BucketBuffer& other : buffers_)
    if (other.bucket == buffer.bucket && other.last_use < buffer.last_use) settle(other);
  std::size_t i = 0;
  for_each_flat(buffer, [&](const FlatParameter& flat, const TensorView& gradient) {
    buffer.handles[i++].wait();
    add(flat, flat.shard(), gradient.rows(flat.shard().begin, flat.shard_elements()),
        shard(flat));
  });
  buffer.settled = true;
  // A bucket of several modules, or of a table that two use, is opened until the last one
  // has added: only then is every contribution of the step in this rank's shards.
  const auto is_missing = [&](std::size_t f) { return flats_[f].pending > 0; };
  const auto is_under_way = [&](const BucketBuffer& other) {
    return other.bucket == buffer.bucket && (other.users > 0 || !other.settled);
  };
  if (converts_sums(context_.config) ||
      std::ranges::any_of(context_.layout.bucket(buffer.bucket).flats, is_missing) ||
      std::ranges::any_of(buffers_, is_under_way))
    return;
  for_each_flat(buffer, [&](const FlatParameter& flat, const TensorView&) {
    flats_[flat.index].sum_over_replicas(context_.stream, flat, shard(flat));
  });
}

void GradientSums::settle() {
  std::vector<BucketBuffer*> order;  // those that were closed first have waited longest
  for (BucketBuffer& buffer : buffers_) order.push_back(&buffer);
  std::ranges::sort(order, {}, &BucketBuffer::last_use);
  for (BucketBuffer* buffer : order) settle(*buffer);
}

}  // namespace trireme::optim
