// Products with independent rows, on any device: right, the same bits in any company.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "kernels/gemm_epilogue.hpp"
#include "kernels/moe.hpp"
#include "kernels/random.hpp"
#include "support/device.hpp"

namespace trireme::kernels {
namespace {

constexpr auto no = Transpose::no, yes = Transpose::yes;

Device device() {
  static const Device at = test::test_device();
  return at;
}

class IndependentRows : public testing::Test {
 protected:
  void SetUp() override { set_independent_rows(true); }
  void TearDown() override { set_independent_rows(false); }
};

Buffer zeros(DType type, std::int64_t rows, std::int64_t columns) {
  return Buffer(device(), type, {rows, columns}, MemoryClass::data, "test");
}

Buffer matrix(DType type, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Buffer result = zeros(type, rows, columns);
  const Buffer drawn = zeros(accumulator_of(type), rows, columns);
  Stream stream(device());
  fill_normal(stream, drawn.view(), {rows, columns}, {0, 0}, seed, 1, 1.0);
  copy(stream, drawn.view(), result.view());
  stream.synchronize();
  return result;
}

// A matrix on the host, with its elements as numbers.
class OnHost {
 public:
  explicit OnHost(const TensorView& from)
      : copy_(Device::host(), from.dtype(), from.shape(), MemoryClass::data, "test") {
    Stream stream(device());
    copy_bytes(stream, from, copy_.view());
    stream.synchronize();
  }
  double operator()(std::int64_t row, std::int64_t column) const {
    return visit_floating(copy_.view().dtype(), [&]<class T>(T) {
      return static_cast<double>(
          Accumulator<T>(copy_.view().data<T>()[row * copy_.view().stride(0) + column]));
    });
  }
  bool has_rows_of(const OnHost& other, std::int64_t first) const {
    const auto row = copy_.bytes() / static_cast<std::size_t>(copy_.view().dim(0));
    const auto* const there = static_cast<const std::byte*>(other.copy_.view().raw());
    return std::memcmp(copy_.view().raw(), there + static_cast<std::size_t>(first) * row,
                       copy_.bytes()) == 0;
  }

 private:
  Buffer copy_;
};

struct Extents {
  std::int64_t M, N, K;
};

// Rounding of K products of order 1: below 8 eps sqrt(K) of the sums, and of the result's
// type once. K is such that every sum of this test is of order sqrt(K).
void check(DType type, DType result, const Extents& of, Transpose transpose_b,
           bool biased) {
  const auto [M, N, K] = of;
  const Buffer a = matrix(type, M, K, 1);
  const Buffer b = transpose_b == yes ? matrix(type, N, K, 2) : matrix(type, K, N, 2);
  const Buffer bias = matrix(type, 1, N, 3);
  const TensorView bias_N = biased ? bias.view().reshape({N}) : TensorView();
  const Buffer c = matrix(result, M, N, 4);
  const OnHost left(a.view()), right(b.view()), added(bias.view()), before(c.view());
  const Accumulate accumulate = biased ? Accumulate::no : Accumulate::yes;
  Stream stream(device());
  gemm(stream, c.view(), a.view(), no, b.view(), transpose_b, accumulate, bias_N);
  stream.synchronize();
  const OnHost whole(c.view());
  const double sums = type == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double rounded = result == DType::bf16  ? 0x1p-8
                         : result == DType::f16 ? 0x1p-11
                                                : 0;
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      double exact = biased ? added(0, j) : before(i, j);
      for (std::int64_t k = 0; k < K; ++k)
        exact += left(i, k) * (transpose_b == yes ? right(j, k) : right(k, j));
      ASSERT_NEAR(whole(i, j), exact,
                  8 * sums * std::sqrt(static_cast<double>(K)) * (1 + std::abs(exact)) +
                      rounded * std::abs(exact))
          << M << " x " << N << " x " << K << " at " << i << ", " << j;
    }
  // Some of the rows, from others on.
  for (const std::int64_t count : {1, 2, 17, 64})
    for (const std::int64_t first : {std::int64_t{0}, M / 2, M - count}) {
      if (first < 0 || first + count > M) continue;
      const Buffer alone = matrix(result, M, N, 4);
      gemm(stream, alone.view().rows(first, count), a.view().rows(first, count), no,
           b.view(), transpose_b, accumulate, bias_N);
      stream.synchronize();
      EXPECT_TRUE(OnHost(alone.view().rows(first, count)).has_rows_of(whole, first))
          << count << " rows from " << first << " on of " << M << " x " << N << " x " << K
          << " " << name_of(type);
    }
}

// With and without rows of whole packs, for one row to many.
TEST_F(IndependentRows, AreProductsAndHaveTheSameBitsInAnyCompany) {
  constexpr Extents all[] = {{1, 1, 1},   {2, 7, 33},   {5, 37, 130},  {19, 65, 64},
                             {16, 40, 8}, {33, 57, 72}, {70, 24, 136}, {133, 72, 96}};
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const DType result : {type, accumulator_of(type)})
      for (const Extents& of : all)
        for (const Transpose transpose : {no, yes})
          check(type, result, of, transpose,
                (of.M + (transpose == yes ? 1 : 0)) % 2 == 0);
}

// A row that stands elsewhere in a tile is summed alike: it takes the place of others.
TEST_F(IndependentRows, DoNotDependOnTheirPlace) {
  for (const DType type : {DType::f32, DType::bf16}) {
    constexpr std::int64_t M = 140, N = 40, K = 88;
    const Buffer a = matrix(type, M, K, 1), b = matrix(type, N, K, 2),
                 c = zeros(type, M, N), turned = zeros(type, M, K), d = zeros(type, M, N);
    Stream stream(device());
    for (std::int64_t i = 0; i < M; ++i)
      copy(stream, a.view().rows(i, 1), turned.view().rows(M - 1 - i, 1));
    gemm(stream, c.view(), a.view(), no, b.view(), yes);
    gemm(stream, d.view(), turned.view(), no, b.view(), yes);
    stream.synchronize();
    const OnHost whole(c.view());
    for (std::int64_t i = 0; i < M; ++i)
      EXPECT_TRUE(OnHost(d.view().rows(M - 1 - i, 1)).has_rows_of(whole, i)) << i;
  }
}

// What a library fuses it does not promise rows of.
TEST_F(IndependentRows, OfProductsWithAnActivation) {
  constexpr std::int64_t M = 21, N = 24, K = 40;
  for (const DType type : {DType::f32, DType::bf16}) {
    const Buffer a = matrix(type, M, K, 1), b = matrix(type, N, K, 2),
                 u = zeros(type, M, N), y = zeros(type, M, N), alone = zeros(type, 1, N),
                 other = zeros(type, 1, N);
    Stream stream(device());
    gemm_activate(stream, Activation::gelu, y.view(), u.view(), a.view(), no, b.view(),
                  yes, {});
    for (const std::int64_t row : {0, 8, 20}) {
      gemm_activate(stream, Activation::gelu, alone.view(), other.view(),
                    a.view().rows(row, 1), no, b.view(), yes, {});
      stream.synchronize();
      EXPECT_TRUE(OnHost(alone.view()).has_rows_of(OnHost(y.view()), row)) << row;
    }
  }
}

// An expert's row does not depend on how many rows it or others have.
TEST_F(IndependentRows, OfExperts) {
  constexpr std::int64_t E = 3, I = 40, O = 24;
  for (const DType type : {DType::f32, DType::bf16}) {
    const std::array<std::int32_t, E> rows = {5, 0, 20};
    const Buffer x = matrix(type, 25, I, 1), w = matrix(type, E * O, I, 2),
                 y = zeros(type, 25, O), alone = zeros(type, 1, O);
    Stream stream(device());
    grouped_linear(stream, rows, x.view(), w.view(), y.view());
    for (const std::int64_t row : {0, 4, 5, 24}) {
      std::array<std::int32_t, E> one = {};
      one[row < 5 ? 0 : 2] = 1;
      grouped_linear(stream, one, x.view().rows(row, 1), w.view(), alone.view());
      stream.synchronize();
      EXPECT_TRUE(OnHost(alone.view()).has_rows_of(OnHost(y.view()), row)) << row;
    }
  }
}

}  // namespace
}  // namespace trireme::kernels
