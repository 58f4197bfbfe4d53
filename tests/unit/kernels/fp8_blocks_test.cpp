// Codes by blocks of a tensor: runs cut anywhere have the codes of the whole.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "kernels/dynamic_blocks.hpp"
#include "support/device.hpp"

namespace trireme::kernels {
namespace {

constexpr std::int64_t rows = 150, columns = 300, blocks = 2 * 3;

// Different magnitudes in each block.
std::vector<float> numbers() {
  std::vector<float> x(rows * columns);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const auto block = static_cast<double>(i / columns / 128 * 3 + i % columns / 128);
    x[static_cast<std::size_t>(i)] = static_cast<float>(
        std::sin(0.37 * static_cast<double>(i)) * std::exp2(4 * block));
  }
  return x;
}

// A box of the tensor, its elements from `first` to `last`.
struct Cut {
  std::int64_t row, column, height, width, first, last;
  TensorRun run() const { return {first, width, row, column, columns}; }
  std::size_t at(std::int64_t i) const {
    return static_cast<std::size_t>((row + i / width) * columns + column + i % width);
  }
};

// The same tensor whole, and in parts that cut rows, columns and blocks.
const std::vector<std::vector<Cut>> cuts = {
    {{0, 0, rows, columns, 0, rows* columns}},
    {{0, 0, rows, columns, 0, 12345}, {0, 0, rows, columns, 12345, rows* columns}},
    {{0, 0, 70, columns, 0, 70 * columns}, {70, 0, 80, columns, 0, 80 * columns}},
    {{0, 0, rows, 100, 0, rows * 100},
     {0, 100, rows, 130, 0, 777},
     {0, 100, rows, 130, 777, rows * 130},
     {0, 230, rows, 70, 0, rows * 70}}};

class Squares : public ::testing::Test {
 protected:
  Device device_ = test::test_device();
  Stream stream_{device_};

  Buffer send(const void* from, DType type, std::size_t n) {
    const Shape shape = {static_cast<std::int64_t>(n)};
    Buffer to(device_, type, shape, MemoryClass::workspace, "test");
    if (from != nullptr)
      copy_bytes(stream_, TensorView(const_cast<void*>(from), type, shape), to.view());
    stream_.synchronize();
    return to;
  }
  template <class T>
  std::vector<T> fetch(const Buffer& from, DType type) {
    std::vector<T> out(static_cast<std::size_t>(from.view().elements()));
    copy_bytes(stream_, from.view(), TensorView(out.data(), type, from.view().shape()));
    stream_.synchronize();
    return out;
  }
};

TEST_F(Squares, AnyCutIsTheWhole) {
  const auto x = numbers();
  std::vector<float> want_amax(blocks), scales(blocks);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    auto& most =
        want_amax[static_cast<std::size_t>(i / columns / 128 * 3 + i % columns / 128)];
    most = std::max(most, std::abs(x[static_cast<std::size_t>(i)]));
  }
  for (std::size_t s = 0; s < blocks; ++s)
    scales[s] = fp8_power_scale(want_amax[s], Fp8Format::e4m3);
  const Buffer on_device = send(scales.data(), DType::f32, blocks);
  for (const auto& parts : cuts) {
    const std::vector<float> zeros(blocks);
    const Buffer amaxes = send(zeros.data(), DType::f32, blocks);
    for (const Cut& cut : parts) {
      std::vector<float> part;
      for (std::int64_t i = cut.first; i < cut.last; ++i) part.push_back(x[cut.at(i)]);
      const Buffer values = send(part.data(), DType::f32, part.size());
      const Buffer codes = send(nullptr, DType::u8, part.size());
      amax_of_blocks(stream_, values.view(), cut.run(), amaxes.view());
      encode_blocks(stream_, values.view(), cut.run(), Fp8Format::e4m3, on_device.view(),
                    codes.view());
      decode_blocks(stream_, codes.view(), cut.run(), Fp8Format::e4m3, on_device.view(),
                    values.view());
      const auto code = fetch<std::uint8_t>(codes, DType::u8);
      const auto value = fetch<float>(values, DType::f32);
      for (std::size_t i = 0; i < part.size(); ++i) {
        const auto at =
            static_cast<std::int64_t>(cut.at(cut.first + static_cast<std::int64_t>(i)));
        const float scale =
            scales[static_cast<std::size_t>(at / columns / 128 * 3 + at % columns / 128)];
        ASSERT_EQ(code[i], fp8_encode(part[i] / scale, Fp8Format::e4m3)) << at;
        ASSERT_EQ(value[i], fp8_decode(code[i], Fp8Format::e4m3) * scale) << at;
      }
    }
    EXPECT_EQ(fetch<float>(amaxes, DType::f32), want_amax);
  }
}

// Blocks of 256 in order, of which the last has 200.
TEST_F(Squares, DynamicCodesOfAnyCutAreThoseOfTheWhole) {
  constexpr std::int64_t n = rows * columns;
  constexpr std::int64_t count = (n + dynamic_block - 1) / dynamic_block;
  const DynamicBlocks all{0, n};
  for (const DynamicType type :
       {DynamicType::signed_numbers, DynamicType::unsigned_numbers}) {
    auto x = numbers();
    if (type == DynamicType::unsigned_numbers)
      for (float& value : x) value *= value;
    const Buffer from = send(x.data(), DType::f32, x.size());
    const Buffer whole_codes = send(nullptr, DType::u8, x.size());
    const Buffer whole_absmax = send(nullptr, DType::f32, count);
    const Buffer whole = send(nullptr, DType::f32, x.size());
    encode_dynamic(stream_, from.view(), type, dynamic_block, whole_codes.view(),
                   whole_absmax.view());
    decode_dynamic(stream_, whole_codes.view(), whole_absmax.view(), type, dynamic_block,
                   whole.view());
    const auto want = fetch<std::uint8_t>(whole_codes, DType::u8);
    const auto want_values = fetch<float>(whole, DType::f32);
    for (const auto& parts : cuts) {
      const Buffer absmax = send(nullptr, DType::f32, count);
      std::vector<Buffer> values;
      for (const Cut& cut : parts) {
        std::vector<float> part;
        for (std::int64_t i = cut.first; i < cut.last; ++i) part.push_back(x[cut.at(i)]);
        values.push_back(send(part.data(), DType::f32, part.size()));
        absmax_of_run(stream_, values.back().view(), cut.run(), all, absmax.view());
      }
      EXPECT_EQ(fetch<float>(absmax, DType::f32), fetch<float>(whole_absmax, DType::f32));
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const Cut& cut = parts[p];
        const Buffer codes =
            send(nullptr, DType::u8, static_cast<std::size_t>(cut.last - cut.first));
        // As on a rank, which has the absmax of its own blocks alone.
        const std::int64_t first = cut.run().index(0) / dynamic_block;
        const TensorView mine = absmax.view().rows(first, count - first);
        encode_run(stream_, values[p].view(), cut.run(), type, all, absmax.view(),
                   codes.view());
        decode_run(stream_, codes.view(), cut.run(), type, {first, n}, mine,
                   values[p].view());
        const auto code = fetch<std::uint8_t>(codes, DType::u8);
        const auto value = fetch<float>(values[p], DType::f32);
        for (std::size_t i = 0; i < code.size(); ++i) {
          const std::size_t at = cut.at(cut.first + static_cast<std::int64_t>(i));
          ASSERT_EQ(code[i], want[at]) << at;
          ASSERT_EQ(value[i], want_values[at]) << at;
        }
      }
    }
  }
}

TEST_F(Squares, NanCountsAsInfinity) {
  const auto infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(300, 1.0f), start = {0, 0, 5};
  x[3] = std::nanf("");
  x[150] = -infinity;
  const Buffer values = send(x.data(), DType::f32, x.size());
  const Buffer amaxes = send(start.data(), DType::f32, 3);
  amax_of_blocks(stream_, values.view(), {0, 300, 0, 0, 300}, amaxes.view());
  EXPECT_EQ(fetch<float>(amaxes, DType::f32),
            (std::vector<float>{infinity, infinity, 5}));
}

}  // namespace
}  // namespace trireme::kernels
