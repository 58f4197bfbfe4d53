// TensorAxisGradients: gradients of which each tensor rank has a part of the sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "optim/store_context.hpp"

namespace trireme::optim {

// A tensor appears here on every rank of the tensor axis if any of its boxes is
// replicated: each rank adds its boxes into zeros at their global place, the sum over the
// ranks among which the tensor is spread is the whole gradient, and each rank takes its
// boxes back. Boxes that one rank alone holds pass through unchanged. So one rule serves
// norms under sequence parallelism, shared key/value heads and routers. Of experts' the
// ranks of the expert axis, which hold other experts, have a place each in every sum.
class TensorAxisGradients {
 public:
  using ShardOf = std::function<TensorView(const FlatParameter&)>;

  // How a gradient's box is moved to and from the accumulator's type, where it is kept in
  // another one.
  class Codec {
   public:
    virtual ~Codec() = default;
    virtual void decode(const NamedBox& named, const TensorView& box,
                        const TensorView& values) = 0;
    virtual void encode(const NamedBox& named, const TensorView& values,
                        const TensorView& box) = 0;
    // The values of the whole tensor are the new sum.
    virtual void rescale(const NamedBox& named, const TensorView& whole) = 0;
  };

  // shard_of: this rank's shard of the gradient sums.
  TensorAxisGradients(StoreContext& context, const ShardOf& shard_of, Device device);

  // Sums them, as many tensors at a time as the memory holds.
  void sum(Codec& codec);
  std::size_t bytes() const { return sums_.bytes(); }

 private:
  // A whole tensor with this rank's boxes of it.
  struct Tensor {
    const NamedBox* named = nullptr;  // any, for name and shape
    bool of_expert = false;
    bool partial = false;  // any of its boxes is replicated
    bool foreign = false;  // of another rank's experts: this one has no part of it
    std::vector<std::pair<ParamBox, TensorView>> boxes;
    std::int64_t elements() const { return named->whole.elements(); }
  };
  std::vector<Tensor> all_tensors(const ShardOf& shard_of) const;
  void sum_range(std::size_t first, std::size_t last, Codec& codec);
  template <class Body>
  void for_each_box(std::size_t first, std::size_t last, const Body& body) const;

  StoreContext& context_;
  std::vector<Tensor> tensors_;
  Buffer sums_;  // whole tensors pass through it
};

}  // namespace trireme::optim
