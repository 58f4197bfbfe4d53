// Checks of linear attention: the gated delta rule with its gates, and the convolution.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/reference/delta_rule.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

using kernels::reference::DeltaVectors;

// Documents of so many rows.
std::vector<std::int32_t> documents(std::int64_t batch, std::int64_t sequence,
                                    std::int64_t rows) {
  std::vector<std::int32_t> starts;
  for (std::int64_t row = 0; row < batch * sequence; ++row)
    starts.push_back(static_cast<std::int32_t>(row % sequence / rows * rows));
  return starts;
}

// Of sums of so many terms: k eps sqrt(n), k = 32, of the largest.
void close(Probe& probe, DType dtype, const Tensor& actual, const Vector& expected,
           std::int64_t terms) {
  probe.close(dtype, actual.values(), expected,
              32 * roundoff(accumulator_of(dtype)) *
                  std::sqrt(static_cast<double>(terms)) * (1 + largest(expected)));
}

}  // namespace

void check_delta_rule(Probe& probe, DType dtype) {
  constexpr std::int64_t B = 2, S = 70, H = 2, G = 4, K = 16, V = 8, T = B * S;
  const std::vector<std::int32_t> starts = documents(B, S, 30);
  const Integers starts_T = probe.integers({T}, starts);
  const DType wide = accumulator_of(dtype);
  const kernels::DeltaShape shape{.batch = B,
                                  .sequence = S,
                                  .key_heads = H,
                                  .value_heads = G,
                                  .key_width = K,
                                  .value_width = V,
                                  .starts_T = starts_T.view()};
  const Tensor q = probe.normal(dtype, {T, H * K}, 1, 3),
               k = probe.normal(dtype, {T, H * K}, 2, 3),
               v = probe.normal(dtype, {T, G * V}, 3, 3),
               d_o = probe.normal(dtype, {T, G * V}, 4),
               a = probe.normal(dtype, {T, G}, 5, 1), b = probe.normal(dtype, {T, G}, 6),
               decay = probe.normal(dtype, {G}, 7), bias = probe.normal(dtype, {G}, 8);
  const Tensor g = probe.zeros(wide, {T, G}), beta = probe.zeros(wide, {T, G}),
               o = probe.zeros(dtype, {T, G * V}),
               states = probe.zeros(wide, shape.states());
  kernels::delta_gates(probe.stream(), a, b, decay, bias, g, beta);
  kernels::delta_rule(probe.stream(), probe.scratch(), shape, {q, k, v, g, beta}, o,
                      states);
  const DeltaVectors in{q.values(), k.values(), v.values(), g.values(), beta.values()};
  close(probe, dtype, o, kernels::reference::delta_rule(shape, in, starts), S * K);
  const Tensor dq = probe.zeros(dtype, {T, H * K}), dk = probe.zeros(dtype, {T, H * K}),
               dv = probe.zeros(dtype, {T, G * V}), dg = probe.zeros(wide, {T, G}),
               dbeta = probe.zeros(wide, {T, G});
  kernels::delta_rule_backward(probe.stream(), probe.scratch(), shape, d_o,
                               {q, k, v, g, beta}, states, {dq, dk, dv, dg, dbeta});
  const DeltaVectors d =
      kernels::reference::delta_rule_backward(shape, in, starts, d_o.values());
  close(probe, dtype, dq, d.q, S * K);
  close(probe, dtype, dk, d.k, S * K);
  close(probe, dtype, dv, d.v, S * K);
  close(probe, wide, dg, d.g, S * K);
  close(probe, wide, dbeta, d.beta, S * K);
}

// g = -e^decay softplus(a + bias) and beta = sigma(b), with their gradients. A rounding
// of a + bias, below 41 here, moves a result by that part of it at most 41 times: 128 of
// each element.
void check_delta_gates(Probe& probe, DType dtype) {
  constexpr std::int64_t T = 33, G = 3;
  const DType wide = accumulator_of(dtype);
  const Tensor a = probe.normal(dtype, {T, G}, 1, 2), b = probe.normal(dtype, {T, G}, 2),
               decay = probe.normal(dtype, {G}, 3),
               bias = probe.filled(dtype, {G}, {1, 8, -36});
  const Tensor g = probe.zeros(wide, {T, G}), beta = probe.zeros(wide, {T, G}),
               dg = probe.normal(wide, {T, G}, 4), dbeta = probe.normal(wide, {T, G}, 5),
               da = probe.zeros(dtype, {T, G}, 1), db = probe.zeros(dtype, {T, G}, 1);
  const Vector from_g = dg.values(), from_beta = dbeta.values();
  kernels::delta_gates(probe.stream(), a, b, decay, bias, g, beta);
  kernels::delta_gates_backward(probe.stream(), a, b, decay, bias, dg, dbeta, da, db);
  const Vector in_a = a.values(), in_b = b.values(), rates = decay.values(),
               shifts = bias.values();
  Vector right_g, right_beta, right_da, right_db, terms, bias_terms;
  for (std::size_t i = 0; i < in_a.size(); ++i) {
    const double x = in_a[i] + shifts[i % G], rate = -std::exp(rates[i % G]);
    const double sigma = 1 / (1 + std::exp(-x)), share = 1 / (1 + std::exp(-in_b[i]));
    right_g.push_back(rate * (std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)))));
    right_beta.push_back(share);
    right_da.push_back(from_g[i] * rate * sigma);
    right_db.push_back(from_beta[i] * share * (1 - share));
    terms.push_back(from_g[i] * right_g[i]);
    bias_terms.push_back(right_da[i]);
  }
  const auto near = [&](DType type, const Tensor& actual, const Vector& expected) {
    Vector bounds;
    for (const double x : expected)
      bounds.push_back(storing(type, x) + 128 * roundoff(wide) * std::abs(x));
    probe.within(actual.values(), expected, bounds);
  };
  near(wide, g, right_g);
  near(wide, beta, right_beta);
  near(dtype, da, right_da);
  near(dtype, db, right_db);
  near(wide, dg, terms);
  near(wide, dbeta, bias_terms);
}

// Rows of more than one piece on a GPU.
void check_causal_conv(Probe& probe, DType dtype) {
  constexpr std::int64_t B = 2, S = 135, C = 130, W = 4, T = B * S;
  const std::vector<std::int32_t> starts = documents(B, S, 9);
  const Integers starts_T = probe.integers({T}, starts);
  const kernels::ConvShape shape{B, S, starts_T.view()};
  const Tensor x = probe.normal(dtype, {T, C}, 1, 3),
               dy = probe.normal(dtype, {T, C}, 2, 3),
               weight = probe.normal(dtype, {C, W}, 3);
  const Tensor y = probe.zeros(dtype, {T, C}), dx = probe.zeros(dtype, {T, C}),
               dweight = probe.zeros(accumulator_of(dtype), {C, W});
  kernels::causal_conv(probe.stream(), shape, x, weight, y);
  kernels::causal_conv_backward(probe.stream(), shape, dy, x, weight, dx, dweight);
  Vector expected =
      kernels::reference::causal_conv(S, starts, x.values(), weight.values(), W);
  for (double& u : expected) u /= 1 + std::exp(-u);
  const auto d = kernels::reference::causal_conv_backward(
      S, starts, x.values(), weight.values(), W, dy.values());
  close(probe, dtype, y, expected, W);
  close(probe, dtype, dx, d.x, 3 * W);
  close(probe, accumulator_of(dtype), dweight, d.weight, 3 * T);
}

}  // namespace trireme::selftest
