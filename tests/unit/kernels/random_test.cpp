// Initial values belong to the element: any cut of a tensor draws the same ones.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/random.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "base/philox.hpp"
#include "kernels/host/normal_numbers.hpp"
#include "kernels/reference/random.hpp"
#include "support/device.hpp"

namespace trireme::kernels {
namespace {

TEST(Random, IsPhiloxAsThePaperWritesIt) {
  const Random random(11, 12);
  for (std::uint64_t i = 0; i < 200; ++i) {
    std::array<std::uint32_t, 4> counter{};
    for (std::uint64_t word = 0; word < 4; ++word)
      counter[word] = static_cast<std::uint32_t>(random.bits(4 * i + word));
    const std::uint64_t both = random.bits(1000 + i);
    const std::array key{static_cast<std::uint32_t>(both),
                         static_cast<std::uint32_t>(both >> 32)};
    EXPECT_EQ(philox4x32(counter, key), reference::philox4x32(counter, key)) << i;
  }
}

TEST(Random, BoxesOfATensorAgreeWithTheWhole) {
  Stream stream;
  const Shape shape = {13, 7};
  const Buffer whole(Device::host(), DType::f32, shape, MemoryClass::weights, "whole");
  fill_normal(stream, whole.view(), shape, {0, 0}, 9, 4, 0.5);
  const Buffer box(Device::host(), DType::f32, {5, 3}, MemoryClass::weights, "box");
  fill_normal(stream, box.view(), shape, {6, 2}, 9, 4, 0.5);
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(box.view().data<float>()[i * 3 + j],
                whole.view().data<float>()[(6 + i) * 7 + 2 + j]);
    }
  }
}

// Whole blocks, their ends, and numbers of all sizes.
TEST(Random, SeveralAtATimeHaveTheBitsOfOne) {
  for (const double deviation : {1.0, 0.02, 1e-42, 3e38}) {
    const Random random(17, 4);
    std::vector<float> numbers(300'001);
    for (const std::size_t count : {std::size_t{1}, std::size_t{63}, numbers.size()}) {
      const std::uint64_t first =
          (1ull << 32) - 1000;  // the counter's lower half overflows
      const std::span<float> drawn(numbers.data(), count);
      normal_numbers(random, first, deviation, drawn);
      for (std::size_t i = 0; i < count; ++i) {
        const auto expected = static_cast<float>(deviation * random.normal(first + i));
        ASSERT_EQ(std::bit_cast<std::uint32_t>(drawn[i]),
                  std::bit_cast<std::uint32_t>(expected))
            << drawn[i] << " for " << expected << ", number " << i;
      }
    }
  }
}

// More elements than a GPU gets in one piece.
TEST(Random, EveryDeviceHasTheHostsBits) {
  const Shape shape = {2100, 2100}, extent = {2099, 2010}, begin = {1, 7};
  const Device device = test::test_device();
  for (const DType dtype : {DType::f32, DType::f64}) {
    Stream host, stream(device);
    const Buffer expected(Device::host(), dtype, extent, MemoryClass::weights, "host");
    const Buffer drawn(device, dtype, extent, MemoryClass::weights, "device");
    const Buffer copied(Device::host(), dtype, extent, MemoryClass::weights, "copy");
    fill_normal(host, expected.view(), shape, begin, 9, 4, 0.5);
    fill_normal(stream, drawn.view(), shape, begin, 9, 4, 0.5);
    copy_bytes(stream, drawn.view(), copied.view());
    EXPECT_EQ(std::memcmp(expected.view().raw(), copied.view().raw(), copied.bytes()), 0);
  }
}

TEST(Random, HasTheDeviationAskedFor) {
  Stream stream;
  constexpr std::int64_t n = 100000;
  const Buffer x(Device::host(), DType::f64, {n}, MemoryClass::weights, "x");
  fill_normal(stream, x.view(), {n}, {0}, 1, 2, 0.02);
  double sum = 0, squares = 0;
  for (const double value : x.view().span<double>()) {
    sum += value;
    squares += value * value;
  }
  // Five standard errors of the mean and of the variance of n normal values.
  EXPECT_NEAR(sum / n, 0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 4e-4, 5 * 4e-4 * std::sqrt(2.0 / n));
}

}  // namespace
}  // namespace trireme::kernels
