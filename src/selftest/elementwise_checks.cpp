// Sums, copies, reductions, soft caps, activations and initial weights.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.hpp"
#include "kernels/activation.hpp"
#include "kernels/dropout.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/random.hpp"
#include "kernels/reference/activation.hpp"
#include "kernels/reference/elementwise.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;

// Fewer than a pack, a warp and a block have, and more than one block takes.
constexpr std::int64_t lengths[] = {1, 17, 257, 9001};

}  // namespace

// One addition is exact in double, rounded to the accumulator, then to the type: the bits
// are known. The sum with a bias is two additions of numbers below 16.
void check_sums(Probe& probe, DType dtype) {
  const DType wide = accumulator_of(dtype);
  for (const std::int64_t n : lengths) {
    const Tensor a = probe.normal(dtype, {n}, 1), b = probe.normal(dtype, {n}, 2);
    const Tensor y = probe.zeros(dtype, {n});
    Vector expected = rounded(dtype, rounded(wide, added(a.values(), b.values())));
    kernels::add(probe.stream(), a, b, y);
    probe.equal(y.values(), expected);
    kernels::accumulate(probe.stream(), b, y);
    probe.equal(y.values(), rounded(dtype, rounded(wide, added(expected, b.values()))));
  }
  for (const std::int64_t D : {8, 17, 1032}) {
    const Tensor a = probe.normal(dtype, {5, D}, 1, 5),
                 b = probe.normal(dtype, {5, D}, 2);
    const Tensor bias = probe.normal(dtype, {D}, 3), y = probe.zeros(dtype, {5, D}, 8);
    kernels::add_bias(probe.stream(), a, b, bias, y);
    probe.close(dtype, y.values(), added(added(a.values(), b.values()), bias.values()),
                2 * 16 * roundoff(wide));
    Vector expected = b.values();
    const Vector each = bias.values();
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] += each[i % each.size()];
    kernels::add_to_rows(probe.stream(), bias, b);
    probe.equal(b.values(), rounded(dtype, rounded(wide, expected)));
  }
}

void check_copies(Probe& probe, DType dtype) {
  for (const DType to : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t n : {17, 1000}) {
      const Tensor x = probe.normal(dtype, {3, n}, 1, 5), y = probe.zeros(to, {3, n});
      kernels::copy(probe.stream(), x, y);
      probe.equal(y.values(), rounded(to, x.values()));
    }
  for (const std::int64_t n : lengths) {
    const Tensor x = probe.zeros(dtype, {n});
    kernels::fill(probe.stream(), x, 0.7);
    kernels::scale(probe.stream(), x, -0.5);  // exact
    Vector expected = rounded(dtype, Vector(static_cast<std::size_t>(n), 0.7));
    for (double& v : expected) v *= -0.5;
    probe.equal(x.values(), expected);
  }
}

// Sums over rows are random walks of T roundings of partial sums of about sqrt(T); those
// over parts are rounded to the type once; those of squares are made in double.
void check_reductions(Probe& probe, DType dtype) {
  const DType wide = accumulator_of(dtype);
  for (const std::int64_t T : {1, 257, 1500}) {
    const std::int64_t N = 127;
    const Tensor x = probe.normal(dtype, {T, N}, 1, 5), sums = probe.zeros(wide, {N});
    kernels::add_column_sums(probe.stream(), x, sums);
    probe.close(wide, sums.values(),
                reference::column_sums(x.values(), static_cast<std::size_t>(N)),
                8 * roundoff(wide) * static_cast<double>(T));
  }
  for (const std::int64_t n : lengths) {
    constexpr std::int64_t P = 5;
    const Tensor parts = probe.normal(dtype, {P, n}, 1), out = probe.zeros(dtype, {n});
    const Vector in = parts.values();
    Vector sum(static_cast<std::size_t>(n)), most(in.begin(), in.begin() + n);
    for (std::size_t i = 0; i < in.size(); ++i) {
      sum[i % sum.size()] += in[i];
      most[i % most.size()] = std::max(most[i % most.size()], in[i]);
    }
    kernels::max_parts(probe.stream(), parts, out);
    probe.equal(out.values(), most);
    kernels::sum_parts(probe.stream(), parts, out);
    probe.close(dtype, out.values(), sum, P * 32 * roundoff(wide));
    const double squares = reference::sum_of_squares(in);
    probe.within(
        {kernels::sum_of_squares(probe.stream(), parts)}, {squares},
        {8 * roundoff(DType::f64) * std::sqrt(static_cast<double>(P * n)) * squares});
  }
}

// Numbers that stay in the device's memory: sums in double of n terms, in any order, are
// random walks of n roundings of partial sums.
void check_sums_in_memory(Probe& probe, DType dtype) {
  constexpr std::int64_t n = 9001;
  constexpr double before = 0.7;
  const Tensor x = probe.normal(dtype, {n}, 1);
  const Vector in = x.values();
  const double squares = reference::sum_of_squares(in);
  const double bound = 8 * roundoff(DType::f64) * std::sqrt(static_cast<double>(n));
  std::vector<TensorView> pieces;
  for (std::int64_t begin = 0; begin < n;) {
    const std::int64_t length = std::min<std::int64_t>(
        n - begin, static_cast<std::int64_t>(pieces.size()) * 7 % 100);
    pieces.push_back(x.view().rows(begin, length));
    begin += length;
  }
  const Tensor whole = probe.filled(DType::f64, {1}, {before});
  const Tensor parts = probe.filled(DType::f64, {1}, {before});
  kernels::add_sum_of_squares(probe.stream(), x, whole);
  kernels::add_sums_of_squares(probe.stream(), pieces, parts);
  for (const Tensor* sum : {&whole, &parts})
    probe.within(sum->values(), {before + squares}, {bound * (before + squares)});
  if (dtype == accumulator_of(dtype)) {
    const Tensor sum = probe.filled(DType::f64, {1}, {before});
    kernels::add_sum(probe.stream(), x, sum);
    double right = before, size = before;
    for (const double v : in) {
      right += v;
      size += std::abs(v);
    }
    probe.within(sum.values(), {right}, {bound * size});
  }
  const auto finite = [&] {
    return Vector{kernels::all_finite(probe.stream(), x) ? 1.0 : 0.0};
  };
  probe.equal(finite(), {1});
  for (const double wrong : {std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    Vector broken = in;
    broken[n - 2] = wrong;
    x.set(broken);
    probe.equal(finite(), {0});
  }
}

// cap tanh(x / cap): the quotient errs by an ulp of the argument, tanh by 7 of its value,
// the product by one; |y| is at most the cap. The gradient's factor is at most 1 and made
// of values whose squares err by 3 roundings, beside the gradient's own.
void check_soft_cap(Probe& probe, DType dtype) {
  const double cap = 1.5, unit = roundoff(accumulator_of(dtype));
  for (const std::int64_t n : {17, 1000}) {
    const Tensor x = probe.normal(dtype, {3, n}, 1, 5);
    Vector expected = x.values();
    for (double& v : expected) v = cap * std::tanh(v / cap);
    kernels::soft_cap(probe.stream(), x, cap);
    probe.close(dtype, x.values(), expected, 10 * cap * unit);
    const Tensor d = probe.normal(dtype, {3, n}, 2, 8);
    Vector change = d.values();
    const Vector y = x.values();
    for (std::size_t i = 0; i < change.size(); ++i)
      change[i] *= 1 - (y[i] / cap) * (y[i] / cap);
    kernels::soft_cap_backward(probe.stream(), x, cap, d);
    probe.close(dtype, d.values(), change, 8 * 5 * unit);
  }
}

// The mask by its definition; a product by 1 / (1 - rate).
void check_dropout(Probe& probe, DType dtype) {
  const double rate = 0.25;
  const DType wide = accumulator_of(dtype);
  for (const std::int64_t D : {7, 264}) {
    const kernels::DropoutKey key{5, 6, 1000, 0, 3, 3};
    const Tensor x = probe.normal(dtype, {3, D}, 1, 8), y = probe.zeros(dtype, {3, D});
    const Integers positions = probe.integers({3}, {0, 1, 2});
    Vector expected = x.values();
    const Random random(key.seed, key.stream);
    for (std::int64_t i = 0; i < 3 * D; ++i) {
      const std::int64_t row = key.first_sequence * 3 + i / D, column = i % D;
      const std::uint64_t bits =
          random.bits(static_cast<std::uint64_t>(row * ((D + 1) / 2) + column / 2));
      const auto half = static_cast<std::uint32_t>(column % 2 == 0 ? bits : bits >> 32);
      expected[static_cast<std::size_t>(i)] *= half >= 0x40000000u ? 1 / (1 - rate) : 0;
    }
    kernels::dropout(probe.stream(), key, rate, positions.view(), x, y);
    probe.close(dtype, y.values(), expected, 8 * 4 * roundoff(wide));
  }
}

// exp and the division give a few roundings, the argument, below 16 here, some more.
void check_activations(Probe& probe, DType dtype) {
  const double error = 32 * roundoff(accumulator_of(dtype));
  for (std::size_t k = 0; k < kernels::activations.size(); ++k)
    for (const std::int64_t F : {1, 17, 264}) {
      const auto kind = static_cast<kernels::Activation>(k);
      const bool gated = kernels::row_of(kind).gated;
      const std::int64_t N = 17, U = gated ? 2 * F : F;
      const Tensor u = probe.normal(dtype, {N, U}, 1, 8);
      const Tensor da = probe.normal(dtype, {N, F}, 2);
      const Tensor a = probe.zeros(dtype, {N, F}), du = probe.zeros(dtype, {N, U}, 5);
      kernels::activate(probe.stream(), kind, u, a);
      kernels::activate_backward(probe.stream(), kind, da, u, du);
      const Vector in = u.values(), given = da.values();
      Vector out(given.size()), back(in.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        const auto f = static_cast<std::size_t>(F);
        const std::size_t at = i / f * static_cast<std::size_t>(U) + i % f;
        const double through = gated ? in[at + f] : 1;
        out[i] = reference::activation(kind, in[at], through);
        back[at] = given[i] * reference::activation_slope(kind, in[at], through);
        if (gated)
          back[at + f] =
              given[i] * reference::activation_slope_of_up(kind, in[at], through);
      }
      probe.close(dtype, a.values(), out, error);
      probe.close(dtype, du.values(), back, error * 4);
    }
}

// Every device draws the bits that a host draws.
void check_initial_weights(Probe& probe, DType dtype) {
  const Shape whole{300, 70}, box{200, 33}, begin{1, 7};
  const Buffer expected(Device::host(), dtype, box, MemoryClass::workspace, "self-test");
  Stream host;
  kernels::fill_normal(host, expected.view(), whole, begin, 9, 4, 0.5);
  const Tensor drawn = probe.zeros(dtype, box);
  kernels::fill_normal(probe.stream(), drawn, whole, begin, 9, 4, 0.5);
  probe.equal(drawn.values(), values_of(expected.view()));
}

}  // namespace trireme::selftest
