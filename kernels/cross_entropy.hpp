// Cross-entropy, a chunk of rows at a time; the vocabulary may be split over ranks.
// SPDX-License-Identifier: Apache-2.0
// Legend: C rows of the chunk, V columns (vocabulary entries) on this rank. With m the
// largest logit, s = sum exp(logit - m), z = m + log s:
//   loss = z - logit[target] + z_loss * z^2,
//   dlogit = scale * (exp(logit - z) * (1 + 2 z_loss z) - [column is the target]).
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// What the gradient of a loss is multiplied by: a number, or one in the memory of the
// device that computes, f64 [1], which a kernel reads when it runs: so that it may be
// another one each time work is run that was recorded once. Either may be multiplied by
// factors of the rows' own.
class LossScale {
 public:
  LossScale(double value) : value_(value) {}  // NOLINT: a number is a scale
  explicit LossScale(const TensorView& value_1) : value_1_(value_1) {}

  // Empty for a number.
  const TensorView& memory() const { return value_1_; }
  // The number; of one in memory, only where the host may read it.
  double value() const { return value_1_.empty() ? value_ : value_1_.data<double>()[0]; }

  // The same, times a factor of each row: factors_C f64 [C], dense, in the memory of the
  // device that computes.
  LossScale times(const TensorView& factors_C) const {
    LossScale scale = *this;
    scale.factors_C_ = factors_C;
    return scale;
  }
  // Empty without them.
  const TensorView& factors() const { return factors_C_; }

 private:
  double value_ = 1;
  TensorView value_1_{}, factors_C_{};
};

// Targets below zero are ignored: their loss and gradient are zero.
inline constexpr std::int32_t ignore_index = -100;

// stats_C3[c] = {max, sum of exp(logit - max), target's logit or 0 when it is on another
// rank} over this rank's columns, one pass. logits_CV of any floating dtype, dense rows;
// targets_C i32 global ids; first: global id of column 0; stats in the accumulator of the
// logits' dtype. V = 0 gives {-inf, 0, 0}.
void cross_entropy_statistics(Stream& stream, const TensorView& logits_CV,
                              const TensorView& targets_C, std::int64_t first,
                              const TensorView& stats_C3);

// Merges the statistics of R ranks, in rank order: stats_RC3 -> stats_C3 (may be row 0).
void cross_entropy_combine(Stream& stream, const TensorView& stats_RC3,
                           const TensorView& stats_C3);

// loss_C = the loss of each row (0 for ignored), in the stats' dtype. Not scaled.
void cross_entropy_loss(Stream& stream, const TensorView& stats_C3,
                        const TensorView& targets_C, double z_loss,
                        const TensorView& loss_C);

// dlogits_CV = scale * d loss / d logits, in dlogits' own dtype (f64, f32, bf16, f16); it
// may be logits_CV itself when the dtypes agree.
void cross_entropy_gradient(Stream& stream, const TensorView& logits_CV,
                            const TensorView& stats_C3, const TensorView& targets_C,
                            std::int64_t first, const LossScale& scale, double z_loss,
                            const TensorView& dlogits_CV);

}  // namespace trireme::kernels
