// Backward of the router, limits of its choices, and its losses as sums in memory.
// SPDX-License-Identifier: Apache-2.0
// Legend: T tokens, E experts, K experts of a token, S positions of a sequence.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/philox.hpp"
#include "kernels/reference/moe.hpp"
#include "kernels/router.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;
using kernels::RouterScore;
using kernels::RouterWeights;

constexpr std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

double sum_of(const double* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

double product_of(const double* x, const double* y, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

// d / d logits of <d, scores>: the derivative of a softmax or of each sigmoid.
Vector of_scores(RouterScore kind, const Vector& s, const Vector& d, std::int64_t E) {
  Vector out;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const std::size_t row = i - i % size(E);
    out.push_back(kind == RouterScore::sigmoid
                      ? d[i] * s[i] * (1 - s[i])
                      : s[i] * (d[i] - product_of(&s[row], &d[row], E)));
  }
  return out;
}

// d / d scores of <dw, w>, where w = scaling s / (sum over the chosen of s, or 1).
Vector of_weights(const RouterWeights& rule, const Vector& s,
                  const std::vector<std::int32_t>& choice, const Vector& dw,
                  std::int64_t E, std::int64_t K) {
  Vector out(s.size());
  for (std::int64_t first = 0; first < static_cast<std::int64_t>(dw.size()); first += K) {
    const auto at = [&](std::int64_t k) {
      return size(first / K * E + choice[size(first + k)]);
    };
    double sum = 0, product = 0;
    for (std::int64_t k = 0; k < K; ++k) {
      sum += s[at(k)];
      product += dw[size(first + k)] * s[at(k)];
    }
    for (std::int64_t k = 0; k < K; ++k)
      out[at(k)] = rule.scaling * (rule.normalise
                                       ? dw[size(first + k)] / sum - product / (sum * sum)
                                       : dw[size(first + k)]);
  }
  return out;
}

// factor * d / d scores of the balance loss; the sums hold the counts of each expert.
// Scores of a softmax sum to 1, whose derivative is left to that of the softmax.
Vector of_balance(RouterScore kind, const Vector& s, const Vector& sums, std::int64_t E,
                  std::int64_t K, std::int64_t S, double factor) {
  Vector out;
  const double slope = factor * static_cast<double>(E) / static_cast<double>(K * S * S);
  for (std::size_t i = 0; i < s.size(); ++i) {
    const std::size_t row = i - i % size(E);
    const double* const counts = &sums[row / size(S * E) * size(2 * E)];
    const double sum = kind == RouterScore::sigmoid ? sum_of(&s[row], E) : 1;
    const double mean =
        kind == RouterScore::sigmoid ? product_of(counts, &s[row], E) / sum : 0;
    out.push_back(slope / sum * (counts[i - row] - mean));
  }
  return out;
}

// factor * d / d logits of the sum of lse^2.
Vector of_z_loss(const Vector& logits, std::int64_t E, double factor) {
  Vector out;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    double sum = 0;
    for (std::size_t e = i - i % size(E); e < i - i % size(E) + size(E); ++e)
      sum += std::exp(logits[e]);
    out.push_back(factor * 2 * std::log(sum) * std::exp(logits[i]) / sum);
  }
  return out;
}

// exp, sums of E terms and a division or two, of numbers below 8; a balance loss counts
// up to S tokens of an expert.
void check_backward(Probe& probe, DType dtype, RouterScore kind, bool normalise,
                    std::int64_t E) {
  constexpr std::int64_t T = 12, S = 4, K = 2;
  constexpr double factor = 0.7;
  const RouterWeights rule{normalise, 1.5};
  Stream& stream = probe.stream();
  const Tensor logits = probe.normal(dtype, {T, E}, 1);
  const Tensor dweights = probe.normal(dtype, {T, K}, 2);
  const Tensor d = probe.normal(dtype, {T, E}, 3), scores = probe.zeros(dtype, {T, E});
  const Tensor dscores = probe.zeros(dtype, {T, E}), lse = probe.zeros(dtype, {T});
  const Tensor dlogits = probe.zeros(dtype, {T, E});
  const Tensor sums = probe.zeros(dtype, {T / S, 2, E});
  const Integers choice = probe.integers({T, K});
  kernels::router_scores(stream, kind, logits, scores);
  kernels::choose_experts(stream, scores, {}, choice);
  kernels::balance_sums(stream, kind, scores, choice, sums);
  const Vector s = scores.values(), counts = sums.values();
  const double error = static_cast<double>(16 + E) * 8 * roundoff(dtype);
  kernels::router_weights_backward(stream, rule, scores, choice, dweights, dscores);
  const Vector written = dscores.values();
  const Vector back = of_weights(rule, s, choice.values(), dweights.values(), E, K);
  probe.close(dtype, written, back, error * (1 + largest(back)));
  kernels::balance_loss_backward(stream, kind, scores, sums, K, S, factor, dscores);
  const Vector balance = of_balance(kind, s, counts, E, K, S, factor);
  probe.close(dtype, dscores.values(), added(written, balance),
              error * (1 + largest(written) + largest(balance)));
  kernels::router_scores_backward(stream, kind, scores, d, dlogits);
  probe.close(dtype, dlogits.values(), of_scores(kind, s, d.values(), E), error);
  const Vector before = dlogits.values();
  const double loss = kernels::router_z_loss(stream, logits, lse);
  kernels::router_z_loss_backward(stream, logits, lse, factor, dlogits);
  probe.close(dtype, dlogits.values(),
              added(before, of_z_loss(logits.values(), E, factor)), error);
  const Tensor sum = probe.filled(DType::f64, {1}, {0.5});
  kernels::add_router_z_loss(stream, logits, lse, factor, sum);
  kernels::add_balance_loss(stream, sums, K, S, factor, sum);
  const double total = 0.5 + factor * (loss + kernels::balance_loss(stream, sums, K, S));
  probe.close(DType::f64, sum.values(), {total}, error * total);
}

// -infinity, which is no distance from anything, as a number that no score has.
Vector with_floor(Vector values) {
  for (double& x : values)
    if (x == -std::numeric_limits<double>::infinity()) x = -1e30;
  return values;
}

// Scores, and one addition of numbers below 8.
void check_groups(Probe& probe, DType dtype, const kernels::ExpertGroups& groups) {
  constexpr std::int64_t T = 9, E = 24;
  const Tensor scores = probe.normal(dtype, {T, E}, 5),
               bias = probe.normal(dtype, {E}, 6);
  const Tensor limited = probe.zeros(dtype, {T, E});
  kernels::limit_to_groups(probe.stream(), groups, scores, bias, limited);
  const Vector values = rounded(dtype, added(scores.values(), bias.values()));
  Vector expected;
  for (std::int64_t t = 0; t < T; ++t) {
    const Vector row(values.begin() + t * E, values.begin() + (t + 1) * E);
    const Vector of_row = reference::limited_to_groups(groups, row);
    expected.insert(expected.end(), of_row.begin(), of_row.end());
  }
  probe.equal(with_floor(limited.values()), with_floor(expected));
}

// Experts keep their first tokens of each sequence.
void check_capacity(Probe& probe, std::int64_t E, std::int64_t S, std::int64_t capacity) {
  constexpr std::int64_t K = 3;
  const std::int64_t T = 2 * S;
  const Random random(5, 9);
  std::vector<std::int32_t> expected;
  for (std::int64_t i = 0; i < T * K; ++i)
    expected.push_back(static_cast<std::int32_t>(
        random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(E))));
  const Integers choice = probe.integers({T, K}, expected), kept = probe.integers({T, K});
  kernels::limit_choices(probe.stream(), choice, E, S, capacity, kept);
  std::vector<std::int64_t> used(size(E));
  for (std::int64_t i = 0; i < T * K; ++i) {
    if (i % (S * K) == 0) used.assign(used.size(), 0);
    if (used[size(expected[size(i)])]++ >= capacity) expected[size(i)] = -1;
  }
  probe.equal(kept.values(), expected);
}

}  // namespace

void check_router_backward(Probe& probe, DType dtype) {
  for (const auto kind : {RouterScore::softmax, RouterScore::sigmoid})
    for (const bool normalise : {false, true})
      for (const std::int64_t E : {5, 70})
        check_backward(probe, dtype, kind, normalise, E);
}

void check_router_limits(Probe& probe, DType dtype) {
  check_groups(probe, dtype, {.groups = 6, .used = 2, .counted = 2});
  check_groups(probe, dtype, {.groups = 4, .used = 3, .counted = 1});
  check_capacity(probe, 3, 5, 2);
  check_capacity(probe, 3, 400, 200);
  check_capacity(probe, 300, 400, 1);
}

}  // namespace trireme::selftest
