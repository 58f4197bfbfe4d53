// ErrorFeedback: what rounding took from a gradient on the wire, for the next one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory.hpp"
#include "optim/number_codec.hpp"

namespace trireme::optim {

// Over which ranks a gradient is summed: those that have a shard each, or those that have
// the same shard. Sums over the latter are needed on all of them.
enum class SumOver : std::uint8_t { shards, replicas };

// Elements of a sum of `count` that one of the ranks makes.
constexpr std::int64_t elements_per_rank(std::int64_t count, std::int64_t ranks) {
  return divide_up(divide_up(count, ranks), alignment_elements) * alignment_elements;
}

// Losses of what a rank sends and of the sums that it makes are kept in the accumulator's
// type and added to the next gradient, so that the sum over steps loses nothing. Source:
// Seide et al., "1-bit stochastic gradient descent", 2014, section 3; of both roundings,
// as Tang et al., "1-bit Adam", 2021.
class ErrorFeedback {
 public:
  ErrorFeedback(StoreContext& context, NumberCodec& codec, Device device);

  bool on() const { return context_.config.error_feedback; }
  // Of elements [range) of the flat parameter that this rank sends.
  TensorView sent(const FlatParameter& flat, Range range, SumOver over) const;
  // Of the `count` elements of the sum that this rank makes.
  TensorView result(const FlatParameter& flat, std::int64_t count, SumOver over) const;
  // loss = values - what their codes stand for, elements [range) of the flat parameter.
  // The loss of a tensor whose gradient is not finite stays: that gradient is not used.
  void keep(const FlatParameter& flat, Range range, const TensorView& values,
            const TensorView& codes, const Scales& scales,
            const std::vector<float>& amaxes, const TensorView& loss);

  // Whole tensors under names of this layout and rank: they mean nothing elsewhere.
  std::vector<StateBox> boxes() const;
  void clear();
  std::size_t bytes() const { return over_shards_.bytes() + over_replicas_.bytes(); }

 private:
  struct Losses {
    Buffer sent, result;
    std::vector<std::int64_t> result_begin;  // of each flat parameter
    NamedBox sent_tensor, result_tensor;     // of checkpoints
    std::size_t bytes() const { return sent.bytes() + result.bytes(); }
  };
  void allocate(Device device, SumOver over, const std::string& owner);

  StoreContext& context_;
  NumberCodec& codec_;
  Losses over_shards_, over_replicas_;
};

}  // namespace trireme::optim
