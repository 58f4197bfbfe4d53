// Lengths of rows against sums in double, at awkward sizes, in every type, strided.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/row_lengths.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/memory.hpp"
#include "base/philox.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::test {
namespace {

constexpr DType types[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

// Random numbers that the type holds, in rows that are `gap` longer than they seem.
struct Matrix {
  Matrix(DType type, std::int64_t N, std::int64_t K, std::int64_t gap,
         std::uint64_t stream)
      : memory(Device::host(), type, {N, K + gap}, MemoryClass::data, "matrix"),
        view(memory.view().columns(0, K)),
        numbers(Device::host(), DType::f64, {N, K}, MemoryClass::data, "numbers") {
    const Random random(9, stream);
    for (std::int64_t i = 0; i < N * K; ++i)
      numbers.view().data<double>()[i] =
          random.uniform(static_cast<std::uint64_t>(i)) * 4 - 2;
    Stream on;
    kernels::copy(on, numbers.view(), view);
    kernels::copy(on, view, numbers.view());
  }
  double at(std::int64_t i, std::int64_t j) const {
    return numbers.view().data<double>()[i * numbers.view().dim(1) + j];
  }
  Buffer memory;
  TensorView view;
  Buffer numbers;
};

Buffer vector_of(std::int64_t N, double value) {
  Buffer v(Device::host(), DType::f64, {N}, MemoryClass::data, "vector");
  Stream on;
  kernels::fill(on, v.view(), value);
  return v;
}

// For each type, number of rows and of columns, dense and strided.
template <class Body>
void each_case(const Body& body) {
  for (const DType type : types)
    for (const std::int64_t N : {1, 3, 65})
      for (const std::int64_t K : {1, 7, 8, 131})
        for (const std::int64_t gap : {0, 5}) {
          SCOPED_TRACE(format("{} {} x {} gap {}", name_of(type), N, K, gap));
          body(type, N, K, gap);
        }
}

TEST(RowLengths, SquaresAreAdded) {
  each_case([](DType type, std::int64_t N, std::int64_t K, std::int64_t gap) {
    const Matrix x(type, N, K, gap, 1);
    const Buffer squares = vector_of(N, 2);
    Stream on;
    for (int call = 1; call <= 2; ++call) {
      kernels::add_row_squares(on, x.view, squares.view());
      for (std::int64_t i = 0; i < N; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < K; ++j) sum += x.at(i, j) * x.at(i, j);
        const double want = 2 + call * sum;
        // K + 2 sums of numbers of one sign, each rounded by 2^-53.
        EXPECT_NEAR(squares.view().data<double>()[i], want,
                    want * static_cast<double>(K + 2) * 0x1p-52);
      }
    }
  });
}

TEST(RowLengths, RootsAreRoundedAsAskedFor) {
  const Buffer x = vector_of(3, 2);
  x.view().data<double>()[1] = 0;
  Stream on;
  kernels::take_roots(on, x.view(), DType::f32);
  EXPECT_EQ(x.view().data<double>()[0], static_cast<double>(std::sqrt(2.0f)));
  EXPECT_EQ(x.view().data<double>()[1], 0);
  const Buffer y = vector_of(1, 2);
  kernels::take_roots(on, y.view(), DType::f64);
  EXPECT_EQ(y.view().data<double>()[0], std::sqrt(2.0));
}

TEST(RowLengths, EqualNumbersDivideToOne) {
  const Matrix x(DType::f32, 1, 64, 0, 3);
  const Buffer lengths = vector_of(64, 0), y = vector_of(64, 7);
  Stream on;
  kernels::copy(on, x.view.reshape({64}), lengths.view());
  lengths.view().data<double>()[5] = 0;
  kernels::divide_by_lengths(on, x.view.reshape({64}), lengths.view(), 0.25, y.view());
  for (std::int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(y.view().data<double>()[i], i == 5 ? 0.25 : 1);
}

TEST(RowLengths, ColumnsAreScaledInPlaceToo) {
  each_case([](DType type, std::int64_t T, std::int64_t N, std::int64_t gap) {
    Matrix x(type, T, N, gap, 4);
    const Matrix factors(DType::f32, 1, N, 0, 5);
    Matrix y(type, T, N, 3, 6);
    const Buffer wide = vector_of(N, 0);
    Stream on;
    kernels::copy(on, factors.view.reshape({N}), wide.view());
    kernels::scale_columns(on, x.view, wide.view(), y.view);
    kernels::scale_columns(on, x.view, wide.view(), x.view);
    const double eps = type == DType::f64   ? 0x1p-52
                       : type == DType::f32 ? 0x1p-23
                       : type == DType::f16 ? 0x1p-10
                                            : 0x1p-7;
    const Matrix seen(DType::f64, T, N, 0, 7);
    for (const TensorView& view : {x.view, y.view}) {
      kernels::copy(on, view, seen.view);
      for (std::int64_t t = 0; t < T; ++t)
        for (std::int64_t j = 0; j < N; ++j) {
          const double want = x.at(t, j) * factors.at(0, j);
          EXPECT_NEAR(seen.view.data<double>()[t * N + j], want,
                      std::abs(want) * eps + 1e-7 * (type == DType::f16));
        }
    }
  });
}

TEST(RowLengths, ProductsOfColumnsAreAdded) {
  each_case([](DType type, std::int64_t T, std::int64_t N, std::int64_t gap) {
    const Matrix x(type, T, N, gap, 8), y(type, T, N, 0, 9);
    const Buffer sums = vector_of(N, -1);
    Stream on;
    for (int call = 1; call <= 2; ++call) {
      kernels::add_column_products(on, x.view, y.view, sums.view());
      for (std::int64_t j = 0; j < N; ++j) {
        double sum = 0, size = 1;
        for (std::int64_t t = 0; t < T; ++t) {
          sum += x.at(t, j) * y.at(t, j);
          size += std::abs(x.at(t, j) * y.at(t, j));
        }
        EXPECT_NEAR(sums.view().data<double>()[j], call * sum - 1,
                    call * size * static_cast<double>(2 * T + 2) * 0x1p-52);
      }
    }
  });
}

TEST(RowLengths, NothingIsDoneOnMeta) {
  Stream meta(Device::meta());
  const TensorView x(nullptr, DType::f32, {4, 8}, Device::meta());
  const TensorView squares(nullptr, DType::f64, {4}, Device::meta());
  kernels::add_row_squares(meta, x, squares);
  kernels::take_roots(meta, squares, DType::f32);
}

}  // namespace
}  // namespace trireme::test
