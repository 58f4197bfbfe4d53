// amax, amax_so_far and transpose: awkward sizes, strided rows, infinities and NaN.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/quantize.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::kernels {
namespace {

using test::Tensor;
using test::Vector;

constexpr DType types[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
constexpr double inf = std::numeric_limits<double>::infinity();

float largest(const Vector& values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::abs(x));
  return static_cast<float>(most);
}

TEST(Amax, IsTheLargestMagnitude) {
  Stream stream(test::test_device());
  for (const DType type : types)
    for (const std::int64_t rows : {1, 3, 40})
      for (const std::int64_t columns : {1, 7, 64, 1030})
        for (const std::int64_t padding : {0, 5}) {
          const Tensor x = Tensor::normal(type, {rows, columns}, 3, padding);
          const Tensor amax_1(DType::f32, {1}, Vector{1e9});  // written, not raised
          amax(stream, x, amax_1);
          EXPECT_EQ(amax_1.values()[0], largest(x.values())) << name_of(type);
        }
}

TEST(Amax, SoFarStaysWhereItIsLarger) {
  Stream stream(test::test_device());
  for (const DType type : types) {
    const Tensor small(type, {3}, Vector{1, -2, 0.5}), large(type, {2}, Vector{0, -8});
    const Tensor empty(type, {0}, Vector{}), so_far(DType::f32, {1}, Vector{4});
    amax_so_far(stream, small, so_far);
    EXPECT_EQ(so_far.values()[0], 4) << name_of(type);
    amax_so_far(stream, large, so_far);
    EXPECT_EQ(so_far.values()[0], 8) << name_of(type);
    amax_so_far(stream, empty, so_far);
    EXPECT_EQ(so_far.values()[0], 8) << name_of(type);
    amax(stream, small, so_far);
    EXPECT_EQ(so_far.values()[0], 2) << name_of(type);
  }
}

TEST(Amax, NotANumberAndInfinityStay) {
  Stream stream(test::test_device());
  const Tensor one(DType::f32, {1}, Vector{1}), so_far(DType::f32, {1}, Vector{0});
  amax_so_far(stream, Tensor(DType::f32, {2}, Vector{-inf, 3}), so_far);
  EXPECT_EQ(so_far.values()[0], inf);
  amax_so_far(stream, Tensor(DType::f32, {2}, Vector{1, std::nan("")}), so_far);
  EXPECT_TRUE(std::isnan(so_far.values()[0]));
  amax_so_far(stream, one, so_far);
  EXPECT_TRUE(std::isnan(so_far.values()[0]));
}

TEST(Transpose, MovesEveryElement) {
  Stream stream(test::test_device());
  for (const DType type : types)
    for (const std::int64_t M : {1, 2, 31, 32, 33, 65})
      for (const std::int64_t K : {1, 5, 32, 47, 64})
        for (const std::int64_t padding : {0, 3}) {
          const Tensor x = Tensor::normal(type, {M, K}, 5, padding);
          const Tensor y(type, {K, M});
          transpose(stream, x, y);
          const Vector from = x.values(), to = y.values();
          Vector expected(from.size());
          for (std::int64_t m = 0; m < M; ++m)
            for (std::int64_t k = 0; k < K; ++k)
              expected[static_cast<std::size_t>(k * M + m)] =
                  from[static_cast<std::size_t>(m * K + k)];
          EXPECT_EQ(to, expected) << name_of(type) << " " << M << " x " << K;
        }
}

TEST(Transpose, MovesCodes) {
  Stream stream(test::test_device());
  constexpr std::int64_t M = 37, K = 130;
  std::vector<std::uint8_t> codes(M * K), back(M * K);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  const Buffer x(test::test_device(), DType::u8, {M, K}, MemoryClass::data, "x");
  const Buffer y(test::test_device(), DType::u8, {K, M}, MemoryClass::data, "y");
  copy_bytes(stream, TensorView(codes.data(), DType::u8, {M, K}), x.view());
  transpose(stream, x.view(), y.view());
  copy_bytes(stream, y.view(), TensorView(back.data(), DType::u8, {K, M}));
  stream.synchronize();
  for (std::size_t m = 0; m < M; ++m)
    for (std::size_t k = 0; k < K; ++k)
      ASSERT_EQ(back[k * M + m], codes[m * K + k]) << m << " " << k;
}

std::vector<std::uint8_t> bytes_of(Stream& stream, const TensorView& codes) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(codes.elements()));
  copy_bytes(stream, codes, TensorView(bytes.data(), DType::u8, codes.shape()));
  stream.synchronize();
  return bytes;
}

// Codes in both orders, and the largest magnitude so far, are those of the kernels for
// one of them each, and what is not asked for is left out.
void expect_both_orders(DType type, Fp8Format format, std::int64_t M, std::int64_t K,
                        std::int64_t padding) {
  Stream stream(test::test_device());
  const Device device = test::test_device();
  const Tensor x = Tensor::normal(type, {M, K}, 7, padding);
  const Tensor scale(DType::f32, {1}, Vector{0.01});
  const auto codes = [&](std::int64_t rows, std::int64_t columns) {
    return Buffer(device, DType::u8, {rows, columns}, MemoryClass::data, "codes");
  };
  const Buffer rows = codes(M, K), columns = codes(K, M), alone = codes(K, M);
  // The definition, element by element, on the host: other kernels could be wrong alike.
  const Vector values = x.values();
  std::vector<std::uint8_t> expected(values.size()), expected_KM(values.size());
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t k = 0; k < K; ++k) {
      const double value = values[static_cast<std::size_t>(m * K + k)];
      const float inverse = 1.0f / 0.01f;
      const std::uint8_t code =
          type == DType::f64
              ? fp8_encode(value * (1.0 / static_cast<double>(0.01f)), format)
              : fp8_encode(static_cast<float>(value) * inverse, format);
      expected[static_cast<std::size_t>(m * K + k)] = code;
      expected_KM[static_cast<std::size_t>(k * M + m)] = code;
    }
  Fp8Matrix y{rows.view(), format, Fp8Scaling::tensor, scale};
  const Tensor amax_1(DType::f32, {1}, Vector{0.25}), most(DType::f32, {1}, Vector{0.25});
  amax_so_far(stream, x, most);
  quantize_and_transpose(stream, x, y, columns.view(), amax_1);
  EXPECT_EQ(bytes_of(stream, rows.view()), expected)
      << name_of(type) << " " << M << " x " << K;
  EXPECT_EQ(bytes_of(stream, columns.view()), expected_KM)
      << name_of(type) << " " << M << " x " << K;
  EXPECT_EQ(amax_1.values(), most.values());
  y.codes = {};
  quantize_and_transpose(stream, x, y, alone.view(), {});
  EXPECT_EQ(bytes_of(stream, alone.view()), expected_KM);
}

TEST(QuantizeAndTranspose, MakesTheCodesOfBothOrders) {
  for (const DType type : types)
    for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2})
      for (const std::int64_t M : {1, 48, 129})
        for (const std::int64_t K : {1, 130, 144})
          for (const std::int64_t padding : {0, 3})
            expect_both_orders(type, format, M, K, padding);
}

TEST(QuantizeAndTranspose, RefusesScalesByBlocks) {
  Stream stream(test::test_device());
  const Tensor x = Tensor::normal(DType::f32, {4, 4}, 1), scale(DType::f32, {1, 4});
  const Fp8Matrix y{{}, Fp8Format::e4m3, Fp8Scaling::row_128, scale};
  EXPECT_THROW(quantize_and_transpose(stream, x, y, {}, {}), Error);
}

}  // namespace
}  // namespace trireme::kernels
