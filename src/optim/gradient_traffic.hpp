// GradientTraffic: sums of gradients over ranks, sent in the type that the recipe gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "optim/error_feedback.hpp"
#include "optim/number_codec.hpp"

namespace trireme::optim {

// Both sums give every rank of the group the same bits, and both the same ones.
class GradientTraffic {
 public:
  GradientTraffic(StoreContext& context, NumberCodec& codec, Device device);

  // values = their sum over the flat parameter's replicas; elements [range) of it.
  void all_reduce(const FlatParameter& flat, Range range, const TensorView& values);
  // This rank's shard of `values`, which are the whole flat parameter's, = its sum over
  // the shard group. The rest is left undefined.
  void reduce_scatter(const FlatParameter& flat, const TensorView& values);

  // Memory for codes of a flat parameter, twice: i is 0 or 1.
  TensorView staging(int i, DType type, std::int64_t elements) const;

  ErrorFeedback& feedback() { return feedback_; }
  const ErrorFeedback& feedback() const { return feedback_; }
  std::size_t bytes() const {
    return sent_.bytes() + sent_scales_.bytes() + result_scales_.bytes();
  }

 private:
  // A sum that is under way.
  struct Sum {
    const FlatParameter& flat;
    comm::Group& group;
    Range range;  // of the flat parameter
    SumOver over;
    TensorView values;
  };
  bool sums_codes() const;
  void sum_codes(const Sum& sum);
  void send(const Sum& sum, const std::vector<float>& amaxes, const TensorView& codes);
  void add_received(const Sum& sum, Range mine, const TensorView& received);

  StoreContext& context_;
  NumberCodec& codec_;
  ErrorFeedback feedback_;
  Buffer sent_;  // codes as they are sent, and as they come
  Scales sent_scales_, result_scales_;
};

}  // namespace trireme::optim
