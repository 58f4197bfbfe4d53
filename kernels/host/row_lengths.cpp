// Lengths of rows, and products with a number for each column, on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/row_lengths.hpp"

#include <array>
#include <cmath>

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::host {
namespace {

// In eight sums, which the compiler may keep in vectors: the order depends on n alone.
template <class T>
double squares_of_row(const T* x, std::int64_t n) {
  constexpr std::int64_t lanes = 8;
  std::array<double, lanes> sums{};
  const std::int64_t whole = n / lanes * lanes;
  for (std::int64_t j = 0; j < whole; j += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const auto value = static_cast<double>(load(x[j + lane]));
      sums[static_cast<std::size_t>(lane)] += value * value;
    }
  for (std::int64_t j = whole; j < n; ++j) {
    const auto value = static_cast<double>(load(x[j]));
    sums[0] += value * value;
  }
  double sum = 0;
  for (const double each : sums) sum += each;
  return sum;
}

}  // namespace

void add_row_squares(Stream& /*stream*/, const TensorView& x_NK,
                     const TensorView& squares_N) {
  double* const squares = squares_N.data<double>();
  visit_floating(x_NK.dtype(), [&]<class T>(T) {
    const auto x = rows_of<const T>(x_NK);
    const std::int64_t K = x_NK.dim(1);
    for_rows("add_row_squares", x_NK.dim(0), K,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i)
                 squares[i] += squares_of_row(x[i], K);
             });
  });
}

void take_roots(Stream& /*stream*/, const TensorView& x_N, DType rounded) {
  for (double& x : x_N.span<double>()) {
    x = std::sqrt(x);
    if (rounded == DType::f32) x = static_cast<float>(x);
  }
}

void divide_by_lengths(Stream& /*stream*/, const TensorView& x_N,
                       const TensorView& lengths_N, double at_zero,
                       const TensorView& y_N) {
  const double* const lengths = lengths_N.data<double>();
  double* const y = y_N.data<double>();
  visit_floating(x_N.dtype(), [&]<class T>(T) {
    const T* const x = x_N.data<T>();
    for (std::int64_t i = 0; i < x_N.elements(); ++i)
      y[i] = lengths[i] == 0 ? at_zero : static_cast<double>(load(x[i])) / lengths[i];
  });
}

void scale_columns(Stream& /*stream*/, const TensorView& x_TN,
                   const TensorView& factors_N, const TensorView& y_TN) {
  const double* const factors = factors_N.data<double>();
  visit_floating(x_TN.dtype(), [&]<class T>(T) {
    using Sum = decltype(load(T{}));
    const auto x = rows_of<const T>(x_TN);
    const auto y = rows_of<T>(y_TN);
    const std::int64_t N = x_TN.dim(1);
    for_rows("scale_columns", x_TN.dim(0), N, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        for (std::int64_t j = 0; j < N; ++j)
          y[t][j] = store<T>(load(x[t][j]) * static_cast<Sum>(factors[j]));
    });
  });
}

void add_column_products(Stream& /*stream*/, const TensorView& x_TN,
                         const TensorView& y_TN, const TensorView& sums_N) {
  double* const sums = sums_N.data<double>();
  visit_floating(x_TN.dtype(), [&]<class T>(T) {
    const auto x = rows_of<const T>(x_TN);
    const auto y = rows_of<const T>(y_TN);
    const std::int64_t rows = x_TN.dim(0), N = x_TN.dim(1);
    for_rows("add_column_products", N, rows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = 0; t < rows; ++t)
        for (std::int64_t j = begin; j < end; ++j)
          sums[j] +=
              static_cast<double>(load(x[t][j])) * static_cast<double>(load(y[t][j]));
    });
  });
}

}  // namespace trireme::kernels::host
