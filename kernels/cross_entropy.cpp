// Cross-entropy: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(cross_entropy_statistics);
TRIREME_BACK_ENDS(cross_entropy_combine);
TRIREME_BACK_ENDS(cross_entropy_loss);
TRIREME_BACK_ENDS(cross_entropy_gradient);

namespace {

ProfileFamily family("cross-entropy");

// Logits and what is made of them: a matrix with its statistics and targets.
void check_logits(const Checks& check, const TensorView& logits_CV,
                  const TensorView& stats_C3, const TensorView& targets_C) {
  check.matrix({"logits", logits_CV});
  const auto C = logits_CV.dim(0);
  check.tensor({"stats", stats_C3}, accumulator_of(logits_CV.dtype()), {C, 3});
  check.tensor({"targets", targets_C}, DType::i32, {C});
}

}  // namespace

void cross_entropy_statistics(Stream& stream, const TensorView& logits_CV,
                              const TensorView& targets_C, std::int64_t first,
                              const TensorView& stats_C3) {
  check_logits(Checks("cross_entropy_statistics", stream), logits_CV, stats_C3,
               targets_C);
  run_kernel<host::cross_entropy_statistics, cuda::cross_entropy_statistics>(
      family, stream, logits_CV, targets_C, first, stats_C3);
}

void cross_entropy_combine(Stream& stream, const TensorView& stats_RC3,
                           const TensorView& stats_C3) {
  const Checks check("cross_entropy_combine", stream);
  check.matrix({"stats", stats_C3});
  const auto C = stats_C3.dim(0);
  check.tensor({"stats", stats_C3}, accumulator_of(stats_C3.dtype()), {C, 3});
  require(stats_RC3.shape().rank() == 3,
          "cross_entropy_combine: the statistics of the ranks have shape {}",
          stats_RC3.shape());
  check.tensor({"stats of the ranks", stats_RC3}, stats_C3.dtype(),
               {stats_RC3.dim(0), C, 3});
  check.dense({"stats of the ranks", stats_RC3});
  run_kernel<host::cross_entropy_combine, cuda::cross_entropy_combine>(
      family, stream, stats_RC3, stats_C3);
}

void cross_entropy_loss(Stream& stream, const TensorView& stats_C3,
                        const TensorView& targets_C, double z_loss,
                        const TensorView& loss_C) {
  const Checks check("cross_entropy_loss", stream);
  check.matrix({"stats", stats_C3});
  const auto C = stats_C3.dim(0);
  check.tensor({"stats", stats_C3}, accumulator_of(stats_C3.dtype()), {C, 3});
  check.tensor({"targets", targets_C}, DType::i32, {C});
  check.tensor({"loss", loss_C}, stats_C3.dtype(), {C});
  run_kernel<host::cross_entropy_loss, cuda::cross_entropy_loss>(
      family, stream, stats_C3, targets_C, z_loss, loss_C);
}

void cross_entropy_gradient(Stream& stream, const TensorView& logits_CV,
                            const TensorView& stats_C3, const TensorView& targets_C,
                            std::int64_t first, const LossScale& scale, double z_loss,
                            const TensorView& dlogits_CV) {
  const Checks check("cross_entropy_gradient", stream);
  check_logits(check, logits_CV, stats_C3, targets_C);
  check.floating({"dlogits", dlogits_CV});
  check.tensor({"dlogits", dlogits_CV}, dlogits_CV.dtype(), logits_CV.shape());
  if (!scale.memory().empty()) check.tensor({"scale", scale.memory()}, DType::f64, {1});
  if (!scale.factors().empty())
    check.tensor({"factors", scale.factors()}, DType::f64, {logits_CV.dim(0)});
  run_kernel<host::cross_entropy_gradient, cuda::cross_entropy_gradient>(
      family, stream, logits_CV, stats_C3, targets_C, first, scale, z_loss, dlogits_CV);
}

}  // namespace trireme::kernels
