// side_by_side(): each piece of work once, and the error of the first that has one.
// SPDX-License-Identifier: Apache-2.0
#include "base/side_by_side.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace trireme {
namespace {

TEST(SideBySide, CallsEachOnce) {
  for (const std::size_t threads : {0u, 1u, 2u, 3u, 8u})
    for (const std::size_t count : {0u, 1u, 2u, 100u}) {
      std::vector<std::atomic<int>> calls(count);
      side_by_side(count, threads, [&](std::size_t i) { ++calls[i]; });
      for (const std::atomic<int>& one : calls) EXPECT_EQ(one, 1);
    }
}

// Each of two waits for the other one.
TEST(SideBySide, RunsThemTogether) {
  std::latch both(2);
  std::vector<std::thread::id> ids(2);
  side_by_side(2, 2, [&](std::size_t i) {
    both.arrive_and_wait();
    ids[i] = std::this_thread::get_id();
  });
  EXPECT_NE(ids[0], ids[1]);
}

TEST(SideBySide, ThrowsWhatTheFirstThrew) {
  for (const std::size_t threads : {1u, 2u, 4u}) {
    std::atomic<int> calls = 0;
    try {
      side_by_side(50, threads, [&](std::size_t i) {
        ++calls;
        if (i >= 10) throw std::runtime_error(std::to_string(i));
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "10");
    }
    EXPECT_GE(calls, 11);
    EXPECT_LE(calls, 10 + static_cast<int>(threads));
  }
}

}  // namespace
}  // namespace trireme
