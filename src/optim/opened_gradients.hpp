// OpenedGradients: memory that modules open, add their gradients to and close, in turn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/memory.hpp"
#include "optim/store_context.hpp"

namespace trireme::optim {

// Buffers for whole gradients of a bucket each. There are as many as the module with most
// buckets opens at a time, and one more, so that one is being reduced while the next is
// filled.
class OpenedGradients {
 public:
  // What becomes of the gradients of a closed buffer: once each time it was opened,
  // before its memory is taken again. What another microbatch made of the same bucket
  // before comes first: sums have one order.
  using FinishBuffer = std::function<void(BucketBuffer& buffer)>;
  // A trained flat parameter of a buffer, and its unsharded gradient.
  using FlatBody = std::function<void(const FlatParameter&, const TensorView&)>;

  OpenedGradients(StoreContext& context, Device device, FinishBuffer finish_buffer);

  // The gradients of the module's Params: undefined where Param::stale_gradient says so,
  // else zeros.
  void open(int module);
  // The Params have no gradients any more; `closed` is told of each buffer.
  void close(int module, const std::function<void(BucketBuffer& buffer)>& closed);
  // Of all that was closed, in the order in which it was opened.
  void finish_closed();

  void for_each_flat(const BucketBuffer& buffer, const FlatBody& body) const;
  // Is any buffer of the bucket open, or not finished?
  bool is_under_way(int bucket) const;
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  // The fitting one that was opened longest ago; the smallest of them where the module
  // has other buckets that are larger.
  BucketBuffer& idle_buffer(int bucket, bool smallest);
  void bind(BucketBuffer& buffer);
  // When this happens depends on the order of modules alone, as all replicas run them.
  void finish(BucketBuffer& buffer);

  StoreContext& context_;
  FinishBuffer finish_buffer_;
  std::vector<BucketBuffer> buffers_;
  Buffer memory_;
  std::int64_t clock_ = 0;  // buffers opened so far
};

}  // namespace trireme::optim
