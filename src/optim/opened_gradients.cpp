// OpenedGradients: which memory a module gets, and when it may be taken again.
// SPDX-License-Identifier: Apache-2.0
#include "optim/opened_gradients.hpp"

#include <algorithm>
#include <utility>

#include "kernels/elementwise.hpp"

namespace trireme::optim {
namespace {

// Elements of the buffers: those of any one module, and one more, as large as half of the
// modules need, so that most of them are reduced while the next is filled.
std::vector<std::int64_t> buffer_capacities(const FlatLayout& layout) {
  std::vector<std::int64_t> capacities(static_cast<std::size_t>(layout.most_buckets));
  std::vector<std::int64_t> largest;  // of each module
  for (const std::vector<int>& buckets : layout.buckets_of_module) {
    std::vector<std::int64_t> sizes;
    for (const int bucket : buckets)
      sizes.push_back(layout.bucket(bucket).trained_elements);
    std::sort(sizes.rbegin(), sizes.rend());
    for (std::size_t i = 0; i < sizes.size(); ++i)
      capacities[i] = std::max(capacities[i], sizes[i]);
    if (!sizes.empty() && sizes.front() > 0) largest.push_back(sizes.front());
  }
  if (largest.empty()) return {};
  const auto middle = largest.begin() + std::ssize(largest) / 2;
  std::nth_element(largest.begin(), middle, largest.end());
  capacities.push_back(*middle);
  return capacities;
}

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

OpenedGradients::OpenedGradients(StoreContext& context, Device device,
                                 FinishBuffer finish_buffer)
    : context_(context), finish_buffer_(std::move(finish_buffer)) {
  const std::int64_t elements = make_buffers(buffer_capacities(context.layout), buffers_);
  memory_ = Buffer(device, context.config.accumulator(), {elements},
                   MemoryClass::gradients, "whole gradients");
}

BucketBuffer& OpenedGradients::idle_buffer(int bucket, bool smallest) {
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
  finish(*best);
  best->bucket = bucket;
  best->users = 1;
  best->last_use = ++clock_;
  return *best;
}

void OpenedGradients::for_each_flat(const BucketBuffer& buffer,
                                    const FlatBody& body) const {
  const TensorView memory = memory_of(buffer, memory_);
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
void OpenedGradients::bind(BucketBuffer& buffer) {
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

void OpenedGradients::open(int module) {
  const auto trained = [&](int bucket) {
    return context_.layout.bucket(bucket).trained_elements;
  };
  // The small ones first, which could otherwise take the memory of the large ones.
  std::vector<int> buckets = context_.layout.module_buckets(module);
  std::stable_sort(buckets.begin(), buckets.end(),
                   [&](int a, int b) { return trained(a) < trained(b); });
  for (const int bucket : buckets)
    if (trained(bucket) > 0) bind(idle_buffer(bucket, bucket != buckets.back()));
}

void OpenedGradients::close(int module,
                            const std::function<void(BucketBuffer& buffer)>& closed) {
  for (const int bucket : context_.layout.module_buckets(module))
    for (BucketBuffer& buffer : buffers_) {
      if (buffer.bucket != bucket || buffer.users == 0) continue;
      for_each_flat(buffer, [&](const FlatParameter& flat, const TensorView&) {
        unbind(context_.stream, flat);
      });
      buffer.users = 0;
      buffer.finished = false;
      closed(buffer);
    }
}

void OpenedGradients::finish(BucketBuffer& buffer) {
  if (buffer.finished) return;
  for (BucketBuffer& other : buffers_)
    if (other.bucket == buffer.bucket && other.last_use < buffer.last_use) finish(other);
  buffer.finished = true;
  finish_buffer_(buffer);
}

void OpenedGradients::finish_closed() {
  std::vector<BucketBuffer*> order;  // those that were closed first have waited longest
  for (BucketBuffer& buffer : buffers_) order.push_back(&buffer);
  std::ranges::sort(order, {}, &BucketBuffer::last_use);
  for (BucketBuffer* buffer : order) finish(*buffer);
}

bool OpenedGradients::is_under_way(int bucket) const {
  return std::ranges::any_of(buffers_, [&](const BucketBuffer& buffer) {
    return buffer.bucket == bucket && (buffer.users > 0 || !buffer.finished);
  });
}

}  // namespace trireme::optim
