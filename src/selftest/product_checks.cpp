// Matrix products of every type, their transposes and epilogues, and those of FP8.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/gemm.hpp"
#include "kernels/gemm_epilogue.hpp"
#include "kernels/reference/activation.hpp"
#include "kernels/reference/fp8.hpp"
#include "kernels/reference/gemm.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;
using kernels::Accumulate;
using kernels::Activation;
using kernels::Fp8Format;
using kernels::Fp8Matrix;
using kernels::Fp8Scaling;
using kernels::Transpose;

// Ragged; rows that start at multiples of 16 bytes, which fused kernels ask for; more
// than a tile.
struct Sizes {
  std::int64_t m, n, k, padding;
};
constexpr Sizes all_sizes[] = {{3, 17, 31, 5}, {33, 48, 80, 0}, {65, 64, 136, 8}};

// Of a sum of n products of order 1: partial sums of a random walk, n roundings.
double error_of_sum(DType dtype, std::int64_t n) {
  return 8 * roundoff(accumulator_of(dtype)) * static_cast<double>(n + 8);
}

// The product as it is right, before it is rounded; `c` is what was there before.
Vector right_product(const Tensor& c, const Tensor& a, Transpose ta, const Tensor& b,
                     Transpose tb, Accumulate accumulate, const TensorView& bias) {
  const Buffer of_a = on_host(a), of_b = on_host(b), of_c = on_host(c);
  const Buffer of_bias = bias.empty() ? Buffer() : on_host(bias);
  return reference::gemm(of_c.view(), of_a.view(), ta, of_b.view(), tb, accumulate,
                         of_bias.view());
}

void check_product(Probe& probe, DType in, DType out, const Sizes& of, Transpose ta,
                   Transpose tb) {
  const bool a_turned = ta == Transpose::yes, b_turned = tb == Transpose::yes;
  const Tensor a =
      probe.normal(in, {a_turned ? of.k : of.m, a_turned ? of.m : of.k}, 1, of.padding);
  const Tensor b =
      probe.normal(in, {b_turned ? of.n : of.k, b_turned ? of.k : of.n}, 2, of.padding);
  const Tensor bias = probe.normal(in, {of.n}, 4);
  struct Way {
    Accumulate accumulate;
    bool bias;
  };
  for (const Way way : {Way{Accumulate::no, false}, Way{Accumulate::yes, false},
                        Way{Accumulate::no, true}}) {
    const Tensor c = probe.normal(out, {of.m, of.n}, 3, of.padding);
    const TensorView with = way.bias ? bias.view() : TensorView();
    const Vector expected = right_product(c, a, ta, b, tb, way.accumulate, with);
    kernels::gemm(probe.stream(), c, a, ta, b, tb, way.accumulate, with);
    probe.close(out, c.values(), expected, error_of_sum(in, of.k));
  }
}

void check_every_way(Probe& probe, DType in, DType out) {
  for (const Sizes& of : all_sizes)
    for (const auto ta : {Transpose::no, Transpose::yes})
      for (const auto tb : {Transpose::no, Transpose::yes})
        check_product(probe, in, out, of, ta, tb);
}

// As batches of texts need it, for as long as a check lasts.
class IndependentRows {
 public:
  IndependentRows() { kernels::set_independent_rows(true); }
  ~IndependentRows() { kernels::set_independent_rows(false); }
  IndependentRows(const IndependentRows&) = delete;
  IndependentRows& operator=(const IndependentRows&) = delete;
};

// At least the steepest slope of an activation between two values near those in `x`.
double steepest(Activation kind, const Vector& x) {
  double most = 1;
  for (const double v : x)
    most = std::max(most, std::abs(reference::activation_slope(kind, v)));
  return 1.2 * most;
}

template <class F>
void for_each_epilogue(const F& f) {
  for (std::size_t k = 0; k < kernels::activations.size(); ++k) {
    const auto kind = static_cast<Activation>(k);
    if (kernels::row_of(kind).gated) continue;
    for (const Sizes& of : all_sizes) f(kind, of);
  }
}

// An FP8 matrix of random codes, and what it means.
struct Operand {
  Operand(Probe& probe, std::int64_t rows, std::int64_t depth, Fp8Format format,
          Fp8Scaling scaling, std::uint64_t seed)
      : codes(probe.device(), rows, depth),
        scales(probe.zeros(DType::f32, kernels::fp8_scales_shape(scaling, rows, depth))),
        matrix{codes.view(), format, scaling, scales} {
    const Vector drawn = probe.normal(DType::f32, {rows, depth}, seed).values();
    std::vector<std::uint8_t> given;
    for (const double x : drawn)
      given.push_back(kernels::fp8_encode(static_cast<float>(x), format));
    codes.set(given);
    Vector of_blocks(static_cast<std::size_t>(scales.view().elements()));
    for (std::size_t i = 0; i < of_blocks.size(); ++i)
      of_blocks[i] = 0.25 + static_cast<double>(i % 7) / 8;
    scales.set(of_blocks);
    for (std::int64_t i = 0; i < rows * depth; ++i)
      values.push_back(reference::fp8_value(given[static_cast<std::size_t>(i)], format) *
                       of_blocks[static_cast<std::size_t>(kernels::fp8_scale_at(
                           scaling, rows, depth, i / depth, i % depth))]);
  }
  Codes codes;
  Tensor scales;
  Fp8Matrix matrix;
  Vector values;
};

// A tensor core adds the products of a step aligned to the largest of them with about 14
// bits, so that each addition loses at most 2^-13 of the sum of magnitudes; a host in f32
// loses far less.
void check_fp8_product(Probe& probe, DType out, const Operand& a, const Operand& b,
                       Accumulate accumulate) {
  const std::int64_t m = a.codes.view().dim(0), n = b.codes.view().dim(0);
  const std::int64_t k = a.codes.view().dim(1);
  const Tensor c = probe.normal(out, {m, n}, 3, 16);
  Vector expected = c.values(), bounds(expected.size());
  if (accumulate == Accumulate::no) expected.assign(expected.size(), 0);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j);
      for (std::int64_t l = 0; l < k; ++l) {
        const double product = a.values[static_cast<std::size_t>(i * k + l)] *
                               b.values[static_cast<std::size_t>(j * k + l)];
        expected[at] += product;
        bounds[at] += std::abs(product) * 0x1p-13;
      }
      bounds[at] += storing(out, expected[at]) + 1e-6;
    }
  kernels::gemm_fp8(probe.stream(), c, a.matrix, b.matrix, accumulate);
  probe.within(c.values(), expected, bounds);
}

void check_fp8_scaled(Probe& probe, Fp8Format of_b, Fp8Scaling a_scaling,
                      Fp8Scaling b_scaling) {
  const Operand a(probe, 40, 272, Fp8Format::e4m3, a_scaling, 1);
  const Operand b(probe, 48, 272, of_b, b_scaling, 2);
  for (const DType out : {DType::f32, DType::bf16})
    for (const auto accumulate : {Accumulate::no, Accumulate::yes})
      check_fp8_product(probe, out, a, b, accumulate);
}

}  // namespace

void check_products(Probe& probe, DType dtype) { check_every_way(probe, dtype, dtype); }

// For one row to many: each row is the same to the bit alone.
void check_row_products(Probe& probe, DType dtype) {
  const IndependentRows scope;
  for (const Sizes& of : all_sizes) {
    check_product(probe, dtype, dtype, of, Transpose::no, Transpose::yes);
    check_product(probe, dtype, dtype, of, Transpose::no, Transpose::no);
    const Tensor a = probe.normal(dtype, {of.m, of.k}, 1, of.padding),
                 b = probe.normal(dtype, {of.n, of.k}, 2, of.padding),
                 c = probe.zeros(dtype, {of.m, of.n}, of.padding),
                 alone = probe.zeros(dtype, {1, of.n}, of.padding);
    kernels::gemm(probe.stream(), c, a, Transpose::no, b, Transpose::yes);
    kernels::gemm(probe.stream(), alone, a.view().rows(of.m - 1, 1), Transpose::no, b,
                  Transpose::yes);
    const Vector all = c.values();
    probe.equal(alone.values(), Vector(all.end() - of.n, all.end()));
  }
}

// Products of 16 bits into f32, as gradients of weights are.
void check_wide_products(Probe& probe, DType dtype) {
  check_every_way(probe, dtype, DType::f32);
}

void check_product_activation(Probe& probe, DType dtype) {
  for_each_epilogue([&](Activation kind, const Sizes& of) {
    const Tensor a = probe.normal(dtype, {of.m, of.k}, 1, of.padding);
    const Tensor b = probe.normal(dtype, {of.n, of.k}, 2, of.padding);
    const Tensor bias = probe.normal(dtype, {of.n}, 3);
    const Tensor u = probe.zeros(dtype, {of.m, of.n}, of.padding);
    const Tensor y = probe.zeros(dtype, {of.m, of.n}, of.padding);
    kernels::gemm_activate(probe.stream(), kind, y, u, a, Transpose::no, b,
                           Transpose::yes, bias);
    Vector expected =
        right_product(u, a, Transpose::no, b, Transpose::yes, Accumulate::no, bias);
    const double error = error_of_sum(dtype, of.k);
    probe.close(dtype, u.values(), expected, error);
    // The activation sees u rounded, or not where the library fuses them.
    const double of_u =
        steepest(kind, expected) * (storing(dtype, largest(expected)) + error);
    for (double& x : expected) x = reference::activation(kind, x);
    probe.close(dtype, y.values(), expected, of_u + error);
  });
}

void check_product_derivative(Probe& probe, DType dtype) {
  for_each_epilogue([&](Activation kind, const Sizes& of) {
    const Tensor a = probe.normal(dtype, {of.m, of.k}, 1, of.padding);
    const Tensor b = probe.normal(dtype, {of.n, of.k}, 2, of.padding);
    const Tensor u = probe.normal(dtype, {of.m, of.n}, 3, of.padding);
    const Tensor du = probe.zeros(dtype, {of.m, of.n}, of.padding);
    Vector expected =
        right_product(du, a, Transpose::no, b, Transpose::yes, Accumulate::no, {});
    const Vector at = u.values();
    const double error = steepest(kind, at) *
                         (error_of_sum(dtype, of.k) + storing(dtype, largest(expected)));
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] *= reference::activation_slope(kind, at[i]);
    kernels::gemm_activate_backward(probe.stream(), kind, du, u, a, Transpose::no, b,
                                    Transpose::yes);
    probe.close(dtype, du.values(), expected,
                error * (1 + 64 * roundoff(accumulator_of(dtype))));
  });
}

void check_product_bias_gradient(Probe& probe, DType dtype) {
  const DType wide = accumulator_of(dtype);
  for (const auto& [O, I, T, padding] : all_sizes) {
    const Tensor dy = probe.normal(dtype, {T, O}, 1, padding);
    const Tensor x = probe.normal(dtype, {T, I}, 2, padding);
    const Tensor dw = probe.normal(wide, {O, I}, 3, padding);
    const Tensor db = probe.normal(wide, {O}, 4);
    const Vector slopes =
        right_product(dw, dy, Transpose::yes, x, Transpose::no, Accumulate::yes, {});
    Vector sums = db.values();
    const Vector of_dy = dy.values();
    for (std::size_t i = 0; i < of_dy.size(); ++i) sums[i % sums.size()] += of_dy[i];
    kernels::gemm_column_sums(probe.stream(), dw, db, dy, x, Accumulate::yes);
    probe.close(wide, dw.values(), slopes, error_of_sum(dtype, T));
    probe.close(wide, db.values(), sums, error_of_sum(dtype, T));
  }
}

void check_fp8_products(Probe& probe, DType dtype) {
  check_fp8_scaled(probe, dtype, Fp8Scaling::tensor, Fp8Scaling::tensor);
}

void check_fp8_block_products(Probe& probe, DType dtype) {
  check_fp8_scaled(probe, dtype, Fp8Scaling::row_128, Fp8Scaling::block_128);
  check_fp8_scaled(probe, dtype, Fp8Scaling::row_128, Fp8Scaling::row_128);
}

}  // namespace trireme::selftest
