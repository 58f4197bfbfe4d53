// Units that several threads need are packed once each, and are there when they are read.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/packed_units.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace trireme::kernels {
namespace {

constexpr std::int64_t count = 300;

// Each of some threads needs all units; in every other round all begin with the same one.
// Some take so long that others ask for them meanwhile.
void expect_all_packed_once(int threads) {
  const auto units = std::make_unique<PackedUnits>();
  for (int round = 0; round < 10; ++round) {
    std::vector<int> packings(count), numbers(count);  // neither is atomic
    std::vector<std::int64_t> wrong(static_cast<std::size_t>(threads));
    units->begin(count);
    const auto work = [&](int thread) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t begin = round % 2 == 0 ? 0 : count * thread / threads;
        const std::int64_t unit = (begin + i) % count;
        const auto at = static_cast<std::size_t>(unit);
        units->need(unit, [&] {
          packings[at] += 1;
          if (unit % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          numbers[at] = static_cast<int>(unit) + round;
        });
        wrong[static_cast<std::size_t>(thread)] +=
            units->is_missing(unit) || numbers[at] != unit + round;
      }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
    work(0);
    for (std::thread& other : others) other.join();
    EXPECT_EQ(packings, std::vector<int>(count, 1));
    EXPECT_EQ(wrong, std::vector<std::int64_t>(static_cast<std::size_t>(threads), 0));
  }
}

TEST(PackedUnits, OneThreadPacksAll) { expect_all_packed_once(1); }

TEST(PackedUnits, ThreadsPackEachUnitOnce) {
  for (const int threads : {2, 3, 8}) expect_all_packed_once(threads);
}

TEST(PackedUnits, AreMissingUntilTheyAreNeeded) {
  PackedUnits units;
  units.begin(2);
  EXPECT_TRUE(units.is_missing(1));
  units.need(1, [] {});
  EXPECT_TRUE(units.is_missing(0));
  EXPECT_FALSE(units.is_missing(1));
  units.begin(2);
  EXPECT_TRUE(units.is_missing(1));
}

}  // namespace
}  // namespace trireme::kernels
