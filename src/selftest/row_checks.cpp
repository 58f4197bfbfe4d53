// Norms, rotary positions, embeddings and cross-entropy.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>

#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"
#include "kernels/norm.hpp"
#include "kernels/reference/cross_entropy.hpp"
#include "kernels/reference/embedding.hpp"
#include "kernels/reference/norm.hpp"
#include "kernels/reference/rope.hpp"
#include "kernels/rope.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;

// One norm, forward and backward with a residual, on T rows of D. x_hat is a difference
// of rounded numbers times rstd and is at most sqrt(D): its error is that of the sums
// over D terms, and enters y times the gain, dx times rstd and the gain, and the gradient
// of the gain once for each row.
void check_norm(Probe& probe, DType dtype, bool centered, std::int64_t T,
                std::int64_t D) {
  constexpr double eps = 1e-5;
  const DType sums = accumulator_of(dtype);
  Stream& stream = probe.stream();
  const Tensor x = probe.normal(dtype, {T, D}, 1, 5), gain = probe.normal(dtype, {D}, 2);
  const Tensor shift = probe.normal(dtype, {D}, 3), dy = probe.normal(dtype, {T, D}, 4);
  const Tensor residual = probe.normal(dtype, {T, D}, 5), y = probe.zeros(dtype, {T, D});
  const Tensor dx = probe.zeros(dtype, {T, D}, 8), mean = probe.zeros(sums, {T});
  const Tensor rstd = probe.zeros(sums, {T}), dgain = probe.zeros(sums, {D});
  const Tensor dshift = probe.zeros(sums, {D});
  if (centered) {
    kernels::layer_norm(stream, x, gain, shift, eps, y, mean, rstd);
    kernels::layer_norm_backward(stream, dy, x, gain, mean, rstd, residual, dx, dgain,
                                 dshift);
  } else {
    kernels::rms_norm(stream, x, {gain}, eps, y, rstd);
    kernels::rms_norm_backward(stream, dy, x, {gain}, rstd, residual, dx, dgain);
  }
  const auto forward = reference::norm(x.values(), gain.values(),
                                       centered ? shift.values() : Vector{}, eps);
  auto backward =
      reference::norm_backward(dy.values(), x.values(), gain.values(), eps, centered);
  const double scale = largest(forward.rstd_T), dy_size = largest(dy.values());
  const double gain_size = largest(gain.values()), x_size = largest(x.values());
  const double error =
      roundoff(sums) * (4 + std::sqrt(static_cast<double>(D))) * (x_size * scale + 1);
  const double n = 1 + std::min(std::sqrt(static_cast<double>(D)), x_size * 2 * scale);
  const double rows = static_cast<double>(T);
  probe.close(dtype, y.values(), forward.y_TD, error * 4 * (gain_size + 1));
  probe.close(sums, rstd.values(), forward.rstd_T, error * 4 * scale);
  probe.close(dtype, dx.values(), added(backward.dx_TD, residual.values()),
              error * 8 * scale * dy_size * gain_size * n);
  probe.close(sums, dgain.values(), backward.dgain_D, error * 8 * dy_size * n * rows);
  if (!centered) return;
  probe.close(sums, mean.values(), forward.mean_T, error * 4);
  probe.close(sums, dshift.values(), backward.dshift_D,
              roundoff(sums) * dy_size * rows * rows);
}

// Targets of C rows; some are ignored.
std::vector<std::int32_t> targets_of(std::int64_t C, std::int64_t V) {
  std::vector<std::int32_t> targets;
  for (std::int64_t c = 0; c < C; ++c)
    targets.push_back(c % 5 == 3 ? kernels::ignore_index
                                 : static_cast<std::int32_t>(c * 131 % V));
  return targets;
}

}  // namespace

void check_norms(Probe& probe, DType dtype) {
  for (const bool centered : {false, true})
    for (const auto& [T, D] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                               {17, 127},
                               {300, 32},
                               {5, 1032},
                               {3, 4097}})
      check_norm(probe, dtype, centered, T, D);
}

// Two products and a sum of numbers below max |x|, and the table's rounding; in f64 the
// angle itself, up to 60, is rounded.
void check_rope(Probe& probe, DType dtype) {
  constexpr double theta = 10000.0;
  const DType wide = accumulator_of(dtype);
  for (const std::int64_t K : {2, 64, 254}) {
    const std::int64_t T = 17, heads = 3;
    std::vector<std::int32_t> positions;
    for (std::int32_t t = 0; t < T; ++t) positions.push_back(t * 7 % 61);
    const Tensor x = probe.normal(dtype, {T, heads * K}, 1, 3);
    const Tensor table = probe.zeros(wide, {61, K});
    kernels::rope_table(probe.stream(), theta, table);
    const Integers at = probe.integers({T}, positions);
    for (const double sign : {1.0, -1.0}) {
      const Vector before = x.values();
      kernels::rope(probe.stream(), x, {heads}, at, table,
                    sign > 0 ? Direction::forward : Direction::backward);
      probe.close(dtype, x.values(),
                  reference::rope(before, static_cast<std::size_t>(heads),
                                  static_cast<std::size_t>(K), positions, theta, sign),
                  largest(before) * roundoff(wide) * (dtype == DType::f64 ? 246 : 6));
    }
  }
}

// Rows of a table of which this rank has some. The gradient of a row is a sum of about
// T / R numbers below 5.
void check_embedding(Probe& probe, DType dtype) {
  const DType sums = accumulator_of(dtype);
  for (const std::int64_t D : {1, 17, 264}) {
    const std::int64_t T = 127, R = 11, first = 5;
    std::vector<std::int32_t> index;
    for (std::int64_t t = 0; t < T; ++t)
      index.push_back(static_cast<std::int32_t>(t * 7 % (R + 4) + 3));
    const Integers ids = probe.integers({T}, index);
    const Tensor table = probe.normal(dtype, {R, D}, 1, 5);
    const Tensor y = probe.normal(dtype, {T, D}, 2), dy = probe.normal(dtype, {T, D}, 3);
    const auto width = static_cast<std::size_t>(D);
    const Vector looked_up = reference::embedding(index, table.values(), width, first);
    const Vector sum = added(y.values(), looked_up);
    kernels::embedding(probe.stream(), ids, table, first, true, y);
    probe.close(dtype, y.values(), sum, 8 * roundoff(sums));
    kernels::embedding(probe.stream(), ids, table, first, false, y);
    probe.equal(y.values(), looked_up);
    const Tensor dtable = probe.zeros(sums, {R, D}, 8);
    kernels::embedding_backward(probe.stream(), dy, ids, first, dtable);
    probe.close(sums, dtable.values(),
                reference::embedding_backward(dy.values(), index,
                                              static_cast<std::size_t>(R), width, first),
                5 * roundoff(sums) * std::pow(static_cast<double>(T) / 8 + 2, 2));
  }
}

// exp, a sum of V terms in lanes, log: relative to z and to logits below 16. The gradient
// may have fewer bits than the logits.
void check_cross_entropy(Probe& probe, DType dtype) {
  for (const std::int64_t V : {17, 1025, 4097})
    for (const DType type : {dtype, DType::bf16}) {
      constexpr std::int64_t C = 7;
      constexpr double z_loss = 0.01;
      const auto targets = targets_of(C, V);
      const Integers ids = probe.integers({C}, targets);
      const Tensor logits = probe.normal(dtype, {C, V}, 1);
      const DType sums = accumulator_of(dtype);
      const Tensor stats = probe.zeros(sums, {C, 3}), loss = probe.zeros(sums, {C});
      const Tensor dlogits = probe.zeros(type, {C, V}, 3);
      kernels::cross_entropy_statistics(probe.stream(), logits, ids, 0, stats);
      kernels::cross_entropy_loss(probe.stream(), stats, ids, z_loss, loss);
      kernels::cross_entropy_gradient(probe.stream(), logits, stats, ids, 0, 1.0, z_loss,
                                      dlogits);
      const auto expected = reference::cross_entropy(
          logits.values(), static_cast<std::size_t>(V), targets, z_loss);
      const double error = roundoff(sums) * (8 + std::sqrt(static_cast<double>(V))) * 4;
      probe.close(sums, loss.values(), expected.loss_C, error * 4);
      probe.close(type, dlogits.values(), expected.dlogits_CV, error);
    }
}

}  // namespace trireme::selftest
