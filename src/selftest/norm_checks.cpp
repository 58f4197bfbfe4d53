// Norms of rows, of sums of rows, and of rows of which ranks hold a part each.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/elementwise.hpp"
#include "kernels/norm.hpp"
#include "kernels/reference/norm.hpp"
#include "kernels/split_norm.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;

constexpr double eps = 1e-5;

// The parameters of one norm of T rows of D, and what it writes forward.
struct Norm {
  Norm(Probe& on, DType of, bool is_centered, std::int64_t rows, std::int64_t width)
      : probe(on),
        dtype(of),
        sums(accumulator_of(of)),
        centered(is_centered),
        T(rows),
        D(width),
        gain(on.normal(of, {D}, 2)),
        shift(on.normal(of, {D}, 3)),
        y(on.zeros(of, {T, D})),
        mean(on.zeros(sums, {T})),
        rstd(on.zeros(sums, {T})) {}

  reference::Normalized expected(const Tensor& x) const {
    return reference::norm(x.values(), gain.values(),
                           centered ? shift.values() : Vector{}, eps);
  }

  // x_hat is a difference of rounded numbers times rstd and is at most sqrt(D): its error
  // is that of the sums over D terms, and enters y times the gain.
  double error(const Tensor& x, const reference::Normalized& right) const {
    return roundoff(sums) * (4 + std::sqrt(static_cast<double>(D))) *
           (largest(x.values()) * largest(right.rstd_T) + 1);
  }

  void compare(const Tensor& x) const {
    const reference::Normalized right = expected(x);
    const double e = error(x, right);
    probe.close(dtype, y.values(), right.y_TD, e * 4 * (largest(gain.values()) + 1));
    probe.close(sums, rstd.values(), right.rstd_T, e * 4 * largest(right.rstd_T));
    if (centered) probe.close(sums, mean.values(), right.mean_T, e * 4);
  }

  Probe& probe;
  DType dtype, sums;
  bool centered;
  std::int64_t T, D;
  Tensor gain, shift, y, mean, rstd;
};

// Forward and backward with a residual. The error of x_hat enters dx times rstd and the
// gain, and the gradient of the gain once for each row.
void check_norm(const Norm& of) {
  const auto& [probe, dtype, sums, centered, T, D, gain, shift, y, mean, rstd] = of;
  Stream& stream = probe.stream();
  const Tensor x = probe.normal(dtype, {T, D}, 1, 5), dy = probe.normal(dtype, {T, D}, 4);
  const Tensor residual = probe.normal(dtype, {T, D}, 5);
  const Tensor dx = probe.zeros(dtype, {T, D}, 8), dgain = probe.zeros(sums, {D});
  const Tensor dshift = probe.zeros(sums, {D});
  if (centered) {
    kernels::layer_norm(stream, x, gain, shift, eps, y, mean, rstd);
    kernels::layer_norm_backward(stream, dy, x, gain, mean, rstd, residual, dx, dgain,
                                 dshift);
  } else {
    kernels::rms_norm(stream, x, {gain}, eps, y, rstd);
    kernels::rms_norm_backward(stream, dy, x, {gain}, rstd, residual, dx, dgain);
  }
  of.compare(x);
  const auto forward = of.expected(x);
  const auto backward =
      reference::norm_backward(dy.values(), x.values(), gain.values(), eps, centered);
  const double scale = largest(forward.rstd_T), dy_size = largest(dy.values());
  const double n =
      1 + std::min(std::sqrt(static_cast<double>(D)), largest(x.values()) * 2 * scale);
  const double rows = static_cast<double>(T), error = of.error(x, forward);
  probe.close(dtype, dx.values(), added(backward.dx_TD, residual.values()),
              error * 8 * scale * dy_size * largest(gain.values()) * n);
  probe.close(sums, dgain.values(), backward.dgain_D, error * 8 * dy_size * n * rows);
  if (centered)
    probe.close(sums, dshift.values(), backward.dshift_D,
                roundoff(sums) * dy_size * rows * rows);
}

// The sum is two additions of numbers below 16, rounded once to the type; the norm is of
// what was rounded.
void check_norm_of_sum(const Norm& of, bool biased) {
  const auto& [probe, dtype, sums, centered, T, D, gain, shift, y, mean, rstd] = of;
  const Tensor a = probe.normal(dtype, {T, D}, 1, 5), b = probe.normal(dtype, {T, D}, 4);
  const Tensor bias = probe.normal(dtype, {D}, 5), x = probe.zeros(dtype, {T, D}, 8);
  const kernels::Addends addends{a, b, biased ? bias.view() : TensorView()};
  if (centered)
    kernels::add_layer_norm(probe.stream(), addends, x, gain, shift, eps, y, mean, rstd);
  else
    kernels::add_rms_norm(probe.stream(), addends, x, {gain}, eps, y, rstd);
  Vector sum = added(a.values(), b.values());
  if (biased) sum = added(std::move(sum), bias.values());
  probe.close(dtype, x.values(), sum, 2 * 16 * roundoff(sums));
  of.compare(x);
}

// Columns [begin, begin + count) of rows of width D.
Vector columns(const Vector& rows, std::int64_t D, std::int64_t begin,
               std::int64_t count) {
  Vector part;
  for (std::int64_t at = begin; at < static_cast<std::int64_t>(rows.size()); at += D)
    part.insert(part.end(), rows.begin() + at, rows.begin() + at + count);
  return part;
}

// The whole rows of a norm, and what one of the ranks holds of them.
struct Whole {
  std::int64_t T, D;
  Vector x, dy, gain;
};
struct Part {
  Part(Probe& probe, DType dtype, const Whole& of, std::int64_t first, std::int64_t width)
      : begin(first),
        count(width),
        x(probe.filled(dtype, {of.T, count}, columns(of.x, of.D, begin, count))),
        dy(probe.filled(dtype, {of.T, count}, columns(of.dy, of.D, begin, count))),
        gain(probe.filled(dtype, {count}, columns(of.gain, of.D, begin, count))),
        squares(probe.zeros(accumulator_of(dtype), {of.T})),
        products(probe.zeros(accumulator_of(dtype), {of.T})),
        rstd(probe.zeros(accumulator_of(dtype), {of.T})),
        y(probe.zeros(dtype, {of.T, count}, 3)),
        dx(probe.zeros(dtype, {of.T, count}, 8)),
        terms(probe.zeros(accumulator_of(dtype), {of.T, count})) {}

  std::int64_t begin, count;
  Tensor x, dy, gain, squares, products, rstd, y, dx, terms;
};

// As ranks sum them.
void sum_over(std::vector<Part>& parts, Tensor Part::*member) {
  Vector sum = (parts[0].*member).values();
  for (std::size_t p = 1; p < parts.size(); ++p)
    sum = added(std::move(sum), (parts[p].*member).values());
  for (Part& part : parts) (part.*member).set(sum);
}

// Every element is a product of a few roundings of sums of D terms: k eps sqrt(D), k =
// 16, of numbers that are a few times 1.
void check_parts(Probe& probe, DType dtype, std::int64_t T, std::int64_t D) {
  Stream& stream = probe.stream();
  const Whole of{T, D, probe.normal(dtype, {T, D}, 1).values(),
                 probe.normal(dtype, {T, D}, 2).values(),
                 probe.normal(dtype, {D}, 3).values()};
  std::vector<Part> parts;
  parts.emplace_back(probe, dtype, of, 0, D / 3);
  parts.emplace_back(probe, dtype, of, D / 3, D - D / 3);
  for (Part& p : parts) kernels::row_products(stream, p.x, p.x, {}, p.squares);
  sum_over(parts, &Part::squares);
  for (Part& p : parts) {
    kernels::split_rms_norm(stream, p.x, p.gain, p.squares, D, eps, p.y, p.rstd);
    kernels::row_products(stream, p.dy, p.x, p.gain, p.products);
  }
  sum_over(parts, &Part::products);
  const auto forward = reference::norm(of.x, of.gain, {}, eps);
  const auto backward = reference::norm_backward(of.dy, of.x, of.gain, eps, false);
  const double error = 16 * roundoff(accumulator_of(dtype)) *
                       std::sqrt(static_cast<double>(D)) * largest(of.x) *
                       largest(of.gain) * 4 * (1 + largest(of.dy) * largest(of.gain));
  for (Part& p : parts) {
    kernels::split_rms_norm_backward(stream, p.dy, p.x, p.gain, p.rstd, p.products, D,
                                     p.dx, p.terms);
    probe.close(dtype, p.y.values(), columns(forward.y_TD, D, p.begin, p.count), error);
    probe.close(dtype, p.dx.values(), columns(backward.dx_TD, D, p.begin, p.count),
                error);
    const Vector terms = p.terms.values();
    Vector dgain(static_cast<std::size_t>(p.count));
    for (std::size_t i = 0; i < terms.size(); ++i) dgain[i % dgain.size()] += terms[i];
    probe.close(accumulator_of(dtype), dgain,
                columns(backward.dgain_D, D, p.begin, p.count),
                error * static_cast<double>(T));
  }
}

}  // namespace

void check_norms(Probe& probe, DType dtype) {
  for (const bool centered : {false, true})
    for (const auto& [T, D] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                               {17, 127},
                               {300, 32},
                               {5, 1032},
                               {3, 4097}})
      check_norm({probe, dtype, centered, T, D});
}

void check_norms_of_sums(Probe& probe, DType dtype) {
  for (const bool centered : {false, true})
    for (const auto& [T, D] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {17, 127}, {5, 1032}, {3, 4097}})
      for (const bool biased : {false, true})
        check_norm_of_sum({probe, dtype, centered, T, D}, biased);
}

void check_split_norms(Probe& probe, DType dtype) {
  for (const std::int64_t T : {1, 65})
    for (const std::int64_t D : {3, 40, 264}) check_parts(probe, dtype, T, D);
}

}  // namespace trireme::selftest
