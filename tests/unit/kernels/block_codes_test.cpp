// Codes in blocks: those of bitsandbytes, bit for bit, and what they lose.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/block_codes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "base/split.hpp"
#include "kernels/coded_matrix.hpp"
#include "support/code_numbers.hpp"
#include "support/device.hpp"
#include "unit/kernels/coded_matrices.hpp"

namespace trireme::kernels {
namespace {

using test::code_digest;
using test::code_numbers;

// 0.02 sin: magnitudes differ from block to block.
std::vector<float> waves(std::int64_t count) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(i)) *
                                     (1.0 + static_cast<double>(i / 64 % 7))));
  return out;
}

class BlockCodes : public ::testing::Test {
 protected:
  Device device_ = test::test_device();
  Stream stream_{device_};

  Buffer make(DType type, std::int64_t n) {
    return Buffer(device_, type, {n}, MemoryClass::workspace, "test");
  }
  Buffer send(const std::vector<float>& x) {
    Buffer to = make(DType::f32, static_cast<std::int64_t>(x.size()));
    const TensorView from(const_cast<float*>(x.data()), DType::f32, to.view().shape());
    copy_bytes(stream_, from, to.view());
    stream_.synchronize();
    return to;
  }
  template <class T>
  std::vector<T> fetch(const Buffer& from) {
    std::vector<T> out(static_cast<std::size_t>(from.view().elements()));
    copy_bytes(stream_, from.view(),
               TensorView(out.data(), from.view().dtype(), from.view().shape()));
    stream_.synchronize();
    return out;
  }
  template <class T>
  std::string digest_of(const Buffer& from) {
    const auto all = fetch<T>(from);
    return code_digest(all.data(), all.size() * sizeof(T));
  }

  struct Coded {
    std::string codes, absmax, back;
  };
  template <class T>
  Coded round_trip(const std::vector<float>& x, FourBitType type, std::int64_t block) {
    std::vector<T> narrow;
    for (const float value : x) narrow.push_back(T(value));
    const auto n = static_cast<std::int64_t>(x.size());
    const Buffer from = make(dtype_of<T>, n), back = make(dtype_of<T>, n);
    copy_bytes(stream_, TensorView(narrow.data(), dtype_of<T>, {n}), from.view());
    const Buffer codes = make(DType::u8, four_bit_bytes(n));
    const Buffer absmax = make(DType::f32, divide_up(n, block));
    encode_four_bits(stream_, from.view(), type, block, codes.view(), absmax.view());
    decode_four_bits(stream_, codes.view(), absmax.view(), type, block, back.view());
    return {digest_of<std::uint8_t>(codes), digest_of<float>(absmax), digest_of<T>(back)};
  }
};

TEST_F(BlockCodes, AreThoseOfBitsandbytes) {
  const char* const root = std::getenv("TRIREME_SOURCE");
  ASSERT_NE(root, nullptr) << "CTest sets it";
  std::ifstream file(std::string(root) + "/tests/reference/block_codes.txt");
  int lines = 0;
  std::string text;
  while (std::getline(file, text)) {
    SCOPED_TRACE(text);
    std::istringstream words(text);
    std::string kind, type;
    std::int64_t count = 0, block = 0;
    std::uint32_t seed = 0;
    Coded want;
    words >> kind >> type >> count >> block >> seed >> want.codes >> want.absmax >>
        want.back;
    const auto x = code_numbers(count, seed);
    const FourBitType four = kind == "nf4" ? FourBitType::nf4 : FourBitType::fp4;
    const Coded got = type == "fp32"   ? round_trip<float>(x, four, block)
                      : type == "bf16" ? round_trip<BFloat16>(x, four, block)
                                       : round_trip<Float16>(x, four, block);
    EXPECT_EQ(got.codes, want.codes);
    EXPECT_EQ(got.absmax, want.absmax);
    EXPECT_EQ(got.back, want.back);
    ++lines;
  }
  EXPECT_EQ(lines, 36);
}

// Golden values of bitsandbytes: blocks of one absmax, then of 1, 1/2, 1/4 and 3 of it.
TEST_F(BlockCodes, DoubleQuantizationIsThatOfBitsandbytes) {
  std::vector<float> x;
  for (int i = 0; i < 256; ++i) {
    const float scale[] = {1.0f, 0.5f, 0.25f, 3.0f};
    x.push_back(static_cast<float>(37 * i % 101 - 50) / 64.0f * scale[i / 64]);
  }
  const Buffer from = send(x), codes = make(DType::u8, 128), absmax = make(DType::f32, 4);
  encode_four_bits(stream_, from.view(), FourBitType::nf4, 64, codes.view(),
                   absmax.view());
  const auto packed = fetch<std::uint8_t>(codes);
  const std::vector<std::uint8_t> begin(packed.begin(), packed.begin() + 8);
  EXPECT_EQ(begin,
            (std::vector<std::uint8_t>{0x04, 0xc1, 0x6e, 0x29, 0xf3, 0xb0, 0x5d, 0x17}));
  const Buffer of_absmax = make(DType::u8, 4), nested = make(DType::f32, 1),
               offset = make(DType::f32, 1), back = make(DType::f32, 256),
               again = make(DType::f32, 4);
  encode_absmax(stream_, absmax.view(), of_absmax.view(), nested.view(), offset.view());
  EXPECT_EQ(fetch<std::uint8_t>(of_absmax), (std::vector<std::uint8_t>{63, 44, 34, 255}));
  EXPECT_EQ(fetch<float>(nested), std::vector<float>{1.416015625f});
  EXPECT_EQ(fetch<float>(offset), std::vector<float>{0.927734375f});
  decode_absmax(stream_, of_absmax.view(), nested.view(), offset.view(), again.view());
  EXPECT_EQ(fetch<float>(again), fetch<float>(absmax));
  decode_four_bits(stream_, codes.view(), absmax.view(), FourBitType::nf4, 64,
                   back.view());
  const auto got = fetch<float>(back);
  const std::pair<std::size_t, float> golden[] = {{0, -0.77617645f},
                                                  {1, -0.22077671f},
                                                  {64, -0.03622287f},
                                                  {128, 0.14365704f},
                                                  {192, -0.66665947f}};
  // Of 8 digits: they are the number's own, or that of a neighbour.
  for (const auto& [at, value] : golden) EXPECT_FLOAT_EQ(got[at], value) << at;
}

// Of all codes, by NumPy in float32: 16 of them are others where a compiler makes one
// operation of product and sum.
TEST_F(BlockCodes, NestedMagnitudesAreRoundedTwice) {
  const Buffer codes = make(DType::u8, 256), absmax = make(DType::f32, 256);
  std::vector<std::uint8_t> all(256);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i);
  copy_bytes(stream_, TensorView(all.data(), DType::u8, {256}), codes.view());
  stream_.synchronize();
  const Buffer nested = send({0.0239f}), offset = send({0.0517595447f});
  decode_absmax(stream_, codes.view(), nested.view(), offset.view(), absmax.view());
  EXPECT_EQ(digest_of<float>(absmax), "97d1573dbfdc9365");
}

TEST_F(BlockCodes, DynamicNumbersAreThoseOfBitsandbytes) {
  const auto& with_sign = dynamic_map(DynamicType::signed_numbers).numbers;
  const auto& without = dynamic_map(DynamicType::unsigned_numbers).numbers;
  EXPECT_FLOAT_EQ(with_sign[0], -0.99296874f);
  EXPECT_FLOAT_EQ(with_sign[1], -0.97890627f);
  EXPECT_FLOAT_EQ(with_sign[64], -0.09859375f);
  EXPECT_FLOAT_EQ(with_sign[126], -5.5e-07f);
  EXPECT_FLOAT_EQ(with_sign[127], 0.0f);
  EXPECT_FLOAT_EQ(with_sign[191], 0.10703126f);
  EXPECT_FLOAT_EQ(with_sign[255], 1.0f);
  EXPECT_FLOAT_EQ(without[0], 0.0f);
  EXPECT_FLOAT_EQ(without[1], 3.25e-07f);
  EXPECT_FLOAT_EQ(without[126], 0.0992969f);
  EXPECT_FLOAT_EQ(without[254], 0.9964844f);
  // Of all the bytes, by tests/reference/make_block_codes.py's digest.
  EXPECT_EQ(code_digest(with_sign, sizeof with_sign), "d677f22a96665bc4");
  EXPECT_EQ(code_digest(without, sizeof without), "43811b16730a873e");
}

// dynamic_codes.txt is made by tests/reference/make_dynamic_codes.py, which owes nothing
// to these kernels.
TEST_F(BlockCodes, DynamicCodesAreThoseOfTheFormula) {
  const char* const root = std::getenv("TRIREME_SOURCE");
  ASSERT_NE(root, nullptr) << "CTest sets it";
  std::ifstream file(std::string(root) + "/tests/reference/dynamic_codes.txt");
  int lines = 0;
  std::string text;
  while (std::getline(file, text)) {
    SCOPED_TRACE(text);
    std::istringstream words(text);
    std::string kind, count;
    std::uint32_t seed = 0;
    Coded want;
    words >> kind >> count >> seed >> want.codes >> want.absmax >> want.back;
    const DynamicType type =
        kind == "signed" ? DynamicType::signed_numbers : DynamicType::unsigned_numbers;
    ++lines;
    if (count == "map") {
      EXPECT_EQ(code_digest(dynamic_map(type).numbers, sizeof(DynamicMap)), want.codes);
      continue;
    }
    const std::int64_t n = std::stoll(count);
    auto x = code_numbers(n, seed);
    if (kind == "unsigned")
      for (float& value : x) value = std::abs(value);
    const Buffer from = send(x), codes = make(DType::u8, n), back = make(DType::f32, n),
                 absmax = make(DType::f32, divide_up(n, dynamic_block));
    encode_dynamic(stream_, from.view(), type, dynamic_block, codes.view(),
                   absmax.view());
    decode_dynamic(stream_, codes.view(), absmax.view(), type, dynamic_block,
                   back.view());
    EXPECT_EQ(digest_of<std::uint8_t>(codes), want.codes);
    EXPECT_EQ(digest_of<float>(absmax), want.absmax);
    EXPECT_EQ(digest_of<float>(back), want.back);
  }
  EXPECT_EQ(lines, 12);
}

// A number is off by at most half the distance of its neighbours: 0.0071 of absmax / 2
// next to 1, plus one rounding of x / absmax and one of the product.
TEST_F(BlockCodes, DynamicCodesAreNearest) {
  for (const std::int64_t n : {1, 255, 256, 257, 3001, 20001}) {
    const auto x = waves(n);
    const Buffer from = send(x), codes = make(DType::u8, n), back = make(DType::f32, n),
                 absmax = make(DType::f32, divide_up(n, dynamic_block));
    encode_dynamic(stream_, from.view(), DynamicType::signed_numbers, dynamic_block,
                   codes.view(), absmax.view());
    decode_dynamic(stream_, codes.view(), absmax.view(), DynamicType::signed_numbers,
                   dynamic_block, back.view());
    const auto got = fetch<float>(back), scales = fetch<float>(absmax);
    const auto kept = fetch<std::uint8_t>(codes);
    const auto& map = dynamic_map(DynamicType::signed_numbers).numbers;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float scale = scales[i / dynamic_block];
      float best = std::numeric_limits<float>::infinity();
      for (const float number : map)
        best = std::min(best, std::abs(number * scale - x[i]));
      EXPECT_LE(std::abs(got[i] - x[i]), best + 4e-7f * scale) << n << " " << i;
      EXPECT_EQ(got[i], map[kept[i]] * scale);
    }
  }
}

// What lies on a bound goes down, what is next to it to its own side. Each block begins
// with 1, so that it is scaled by 1.
TEST_F(BlockCodes, DynamicCodesChangeAtTheBounds) {
  for (const DynamicType type :
       {DynamicType::signed_numbers, DynamicType::unsigned_numbers}) {
    const DynamicMap& map = dynamic_map(type);
    std::vector<float> x;
    std::vector<unsigned> want;
    const auto add = [&](float value, unsigned code) {
      if (x.size() % dynamic_block == 0) {
        x.push_back(1.0f);
        want.push_back(255);
      }
      x.push_back(value);
      want.push_back(code);
    };
    for (unsigned code = 0; code < 255; ++code) {
      const float bound = (map.numbers[code] + map.numbers[code + 1]) / 2.0f;
      add(map.numbers[code], code);
      add(bound, code);
      add(std::nextafter(bound, -2.0f), code);
      add(std::nextafter(bound, 2.0f), code + 1);
    }
    const auto n = static_cast<std::int64_t>(x.size());
    const Buffer from = send(x), codes = make(DType::u8, n),
                 absmax = make(DType::f32, divide_up(n, dynamic_block));
    encode_dynamic(stream_, from.view(), type, dynamic_block, codes.view(),
                   absmax.view());
    const auto got = fetch<std::uint8_t>(codes);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(got[i], want[i]) << x[i];
  }
}

TEST_F(BlockCodes, ZerosAndNumbersThatAreNone) {
  std::vector<float> x(192, 0.0f);
  x[70] = std::numeric_limits<float>::quiet_NaN();
  const Buffer from = send(x), codes = make(DType::u8, 96), absmax = make(DType::f32, 3),
               back = make(DType::f32, 192);
  encode_four_bits(stream_, from.view(), FourBitType::nf4, 64, codes.view(),
                   absmax.view());
  decode_four_bits(stream_, codes.view(), absmax.view(), FourBitType::nf4, 64,
                   back.view());
  const auto got = fetch<float>(back);
  for (std::size_t i = 0; i < 192; ++i) {
    if (i / 64 == 1)
      EXPECT_TRUE(std::isnan(got[i])) << i;
    else
      EXPECT_EQ(got[i], 0.0f) << i;
  }
}

TEST_F(BlockCodes, WrongShapesAreRefused) {
  const Buffer x = send(waves(100)), codes = make(DType::u8, 50),
               absmax = make(DType::f32, 1);
  EXPECT_THROW(encode_four_bits(stream_, x.view(), FourBitType::nf4, 64, codes.view(),
                                absmax.view()),
               Error);
  EXPECT_THROW(decode_four_bits(stream_, codes.view(), absmax.view(), FourBitType::nf4,
                                63, x.view()),
               Error);
}

// Bit for bit what base/coded_matrix.hpp defines, between strangers that stay.
template <class T>
void expect_decoded(const OwnedCodes& codes, DType dtype) {
  const std::int64_t N = codes.matrix.shape[0], K = codes.matrix.shape[1];
  const Buffer memory(Device::host(), dtype, {N, K + 3}, MemoryClass::workspace, "y");
  for (T& y : memory.view().span<T>()) y = T(77.0f);
  Stream stream(Device::host());
  decode_matrix(stream, codes.matrix, memory.view().columns(1, K));
  std::vector<float> row(static_cast<std::size_t>(K));
  const T* y = memory.view().data<T>();
  for (std::int64_t i = 0; i < N; ++i) {
    decode_row(codes.matrix, i, row.data());
    for (std::int64_t j = 0; j < K + 3; ++j, ++y) {
      const bool inside = j >= 1 && j <= K;
      const T wanted = inside ? T(row[static_cast<std::size_t>(j - 1)]) : T(77.0f);
      ASSERT_EQ(std::memcmp(y, &wanted, sizeof wanted), 0) << i << " " << j;
    }
  }
}

TEST(DecodeMatrix, EqualsTheDefinition) {
  const auto grid = test::grid_of_scales;
  for (const CodeType type : {CodeType::four_bits, CodeType::int8, CodeType::e4m3})
    for (const std::int64_t K : {1, 2, 31, 64, 97, 256})
      for (const std::int64_t N : {1, 5}) {
        ScaleLayout runs{1, 64, true};
        runs.first_column = 13;
        runs.whole_columns = K + 11;
        for (const ScaleLayout& layout :
             {runs, grid(1, K, K, 0, 0), grid(1, 32, K, 0, 5), grid(3, 16, K, 2, 15)})
          for (const DType rounding : {DType::f32, DType::bf16, DType::f16})
            for (const bool zeros : {false, true}) {
              OwnedCodes codes = test::coded_matrix(type, {N, K}, layout, zeros);
              codes.matrix.rounding = rounding;
              if (type == CodeType::int8) codes.matrix.factor = 7.874015718698502e-3F;
              expect_decoded<float>(codes, DType::f32);
              expect_decoded<BFloat16>(codes, DType::bf16);
              expect_decoded<Float16>(codes, DType::f16);
              expect_decoded<double>(codes, DType::f64);
              if (HasFatalFailure())
                FAIL() << static_cast<int>(type) << " " << N << " " << K;
            }
      }
}

TEST(DecodeMatrix, RefusesAnotherShape) {
  const OwnedCodes codes = test::coded_matrix(CodeType::int8, {2, 4}, {1, 4}, false);
  const Buffer y(Device::host(), DType::f32, {4, 2}, MemoryClass::workspace, "y");
  Stream stream(Device::host());
  EXPECT_THROW(decode_matrix(stream, codes.matrix, y.view()), Error);
}

}  // namespace
}  // namespace trireme::kernels
