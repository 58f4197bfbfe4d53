// Columns of heads, sinks of attention, and the first positions that queries see.
// SPDX-License-Identifier: Apache-2.0
// Legend: T rows, H heads, K width of a head.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/attention_sinks.hpp"
#include "kernels/heads.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

// Heads, and what is moved of them: `width` columns from one place to another.
struct Columns {
  std::int64_t heads, from_width, from_first, to_width, to_first, width;
};
constexpr Columns columns[] = {{1, 5, 2, 4, 1, 3},
                               {3, 7, 0, 9, 2, 7},
                               {4, 32, 16, 24, 8, 16},
                               {2, 64, 0, 64, 0, 64}};
constexpr std::int64_t rows = 5;

std::size_t at(std::int64_t t, std::int64_t width, std::int64_t column) {
  return static_cast<std::size_t>(t * width + column);
}

void check_copied(Probe& probe, DType dtype, const Columns& of, std::int64_t from_heads) {
  const std::int64_t A = from_heads * of.from_width, B = of.heads * of.to_width;
  const Tensor from = probe.normal(dtype, {rows, A}, 1, 3);
  const Tensor to = probe.normal(dtype, {rows, B}, 2, 8);
  Vector expected = to.values();
  const Vector values = from.values();
  for (std::int64_t t = 0; t < rows; ++t)
    for (std::int64_t h = 0; h < of.heads; ++h)
      for (std::int64_t i = 0; i < of.width; ++i)
        expected[at(t, B, h * of.to_width + of.to_first + i)] =
            values[at(t, A, h % from_heads * of.from_width + of.from_first + i)];
  kernels::copy_heads(probe.stream(), {from, from_heads, of.from_first},
                      {to, of.heads, of.to_first}, of.width);
  probe.equal(to.values(), expected);
}

// Sums of at most 4 numbers below 5.
void check_summed(Probe& probe, DType dtype, const Columns& of) {
  const std::int64_t A = of.heads * of.from_width, B = of.to_width;
  const Tensor from = probe.normal(dtype, {rows, A}, 1, 3);
  const Tensor to = probe.normal(dtype, {rows, B}, 2, 5);
  Vector expected = to.values();
  const Vector values = from.values();
  for (std::int64_t t = 0; t < rows; ++t)
    for (std::int64_t i = 0; i < of.width; ++i) {
      double& sum = expected[at(t, B, of.to_first + i)] = 0;
      for (std::int64_t h = 0; h < of.heads; ++h)
        sum += values[at(t, A, h * of.from_width + of.from_first + i)];
    }
  kernels::sum_heads(probe.stream(), {from, of.heads, of.from_first},
                     {to, 1, of.to_first}, of.width);
  probe.close(dtype, to.values(), expected, 4 * 20 * roundoff(accumulator_of(dtype)));
}

// One more logit makes e^lse + e^sink of the sum of a row's exponentials. exp and log
// give a few roundings, and the arguments, below 8, some more; a term is a sum of K
// products.
void check_one_sink(Probe& probe, DType dtype, std::int64_t T, std::int64_t H,
                    std::int64_t K) {
  const double unit = roundoff(accumulator_of(dtype));
  const DType wide = accumulator_of(dtype);
  const Tensor sinks = probe.normal(dtype, {H}, 1), lse = probe.normal(wide, {T, H}, 4);
  const Tensor o = probe.normal(dtype, {T, H * K}, 2, 3);
  const Tensor d_o = probe.normal(dtype, {T, H * K}, 3, 8);
  const Tensor terms = probe.zeros(wide, {T, H});
  const Vector before = o.values(), sums = lse.values(), s = sinks.values();
  kernels::add_sinks(probe.stream(), sinks, o, lse);
  kernels::sink_gradients(probe.stream(), sinks, d_o, o, lse, terms);
  const Vector after = o.values(), d = d_o.values();
  Vector right_lse, lse_bounds, right_o, o_bounds, right_terms, term_bounds;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double sink = s[i % static_cast<std::size_t>(H)];
    const double sum = std::log(std::exp(sums[i]) + std::exp(sink));
    right_lse.push_back(sum);
    lse_bounds.push_back(16 * unit * (1 + std::abs(sum)));
    double term = 0, size = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(K); ++k) {
      const std::size_t place = i * static_cast<std::size_t>(K) + k;
      right_o.push_back(std::exp(sums[i] - sum) * before[place]);
      o_bounds.push_back(storing(dtype, right_o.back()) +
                         32 * unit * std::abs(right_o.back()));
      term -= std::exp(sink - sum) * d[place] * after[place];
      size += std::abs(d[place] * after[place]);
    }
    right_terms.push_back(term);
    term_bounds.push_back(64 * unit * (size + std::abs(term)));
  }
  probe.within(lse.values(), right_lse, lse_bounds);
  probe.within(after, right_o, o_bounds);
  probe.within(terms.values(), right_terms, term_bounds);
}

}  // namespace

void check_heads(Probe& probe, DType dtype) {
  for (const Columns& of : columns) {
    check_copied(probe, dtype, of, 1);
    check_copied(probe, dtype, of, of.heads);
    check_summed(probe, dtype, of);
  }
}

void check_sinks(Probe& probe, DType dtype) {
  for (const std::int64_t T : {1, 130})
    for (const std::int64_t H : {1, 3})
      for (const std::int64_t K : {5, 64}) check_one_sink(probe, dtype, T, H, K);
}

// Integers have no type to choose.
void check_first_positions(Probe& probe, DType /*dtype*/) {
  constexpr std::int64_t n = 1000, window = 23;
  const std::array chunks = {Range{4, 7}, Range{20, 25}, Range{300, 2000}};
  std::vector<std::int32_t> at, below, first;
  for (std::int32_t i = 0; i < n; ++i) {
    const std::int32_t position = i * 7 % 2500;
    at.push_back(position);
    first.push_back(std::max<std::int32_t>(position - (window - 1), 0));
    below.push_back(0);
    for (const Range& chunk : chunks)
      for (std::int64_t p = chunk.begin; p < chunk.end; ++p)
        below.back() += p < position ? 1 : 0;
  }
  const Integers positions = probe.integers({n}, at), counts = probe.integers({n}),
                 starts = probe.integers({n});
  kernels::count_positions_below(probe.stream(), positions, chunks, counts);
  kernels::window_starts(probe.stream(), positions, window, starts);
  probe.equal(counts.values(), below);
  probe.equal(starts.values(), first);
}

}  // namespace trireme::selftest
