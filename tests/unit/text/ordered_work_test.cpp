// Work on any number of threads is taken in its order, and little of it is under way.
// SPDX-License-Identifier: Apache-2.0
#include "text/ordered_work.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace trireme::text {
namespace {

using namespace std::chrono_literals;

class OrderedWorkTest : public testing::TestWithParam<int> {
 protected:
  // Adds pieces of work of `bytes` each, of which the first ends some time after
  // `expected` were added; how many were under way at most.
  std::size_t most_under_way(std::size_t bytes, std::size_t expected) {
    constexpr std::size_t pieces = 100;
    OrderedWork work(GetParam());
    std::atomic<std::size_t> added = 0;
    std::size_t taken = 0, most = 0;
    std::atomic<bool> open = false;
    std::thread opener([&] {
      for (int i = 0; i < 1000 && added < expected; ++i)
        std::this_thread::sleep_for(10ms);
      std::this_thread::sleep_for(20ms);  // for what would be too many
      open = true;
      open.notify_all();
    });
    for (std::size_t i = 0; i < pieces; ++i) {
      work.add(bytes, [&, i](std::size_t) {
        if (i == 0) open.wait(false);
        return [&] { ++taken; };
      });
      most = std::max(most, ++added - taken);
    }
    work.finish();
    opener.join();
    EXPECT_EQ(taken, pieces);
    return most;
  }
};

TEST_P(OrderedWorkTest, TakesTurnsInOrderOnTheCallersThread) {
  const auto caller = std::this_thread::get_id();
  std::vector<int> taken;
  std::vector<std::atomic<int>> at_work(static_cast<std::size_t>(GetParam()));
  OrderedWork work(GetParam());
  for (int i = 0; i < 200; ++i)
    work.add(static_cast<std::size_t>(i % 7) << 18, [&, i](std::size_t thread) {
      EXPECT_EQ(at_work.at(thread)++, 0);
      if (i % 10 == 0) std::this_thread::sleep_for(1ms);
      --at_work[thread];
      return [&, i] {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        taken.push_back(i);
      };
    });
  work.finish();
  std::vector<int> expected(200);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(taken, expected);
}

// For each thread twice the largest, 1 MiB at least and 128 MiB at most; or one that is
// larger.
TEST_P(OrderedWorkTest, BoundsWhatIsUnderWay) {
  const auto threads = static_cast<std::size_t>(GetParam());
  constexpr std::size_t mib = std::size_t{1} << 20;
  const auto expect_at_most = [&](std::size_t bytes, std::size_t of_threads) {
    const std::size_t expected = threads > 1 ? of_threads : 0;
    EXPECT_EQ(most_under_way(bytes, expected), expected) << bytes;
  };
  expect_at_most(mib / 8, 8 * threads - 1);  // each has a little more
  expect_at_most(8 * mib, 2 * threads);
  expect_at_most(100 * mib, 128 * threads / 100);
  expect_at_most(mib * mib, 1);
}

TEST_P(OrderedWorkTest, ThrowsTheFirstErrorInItsTurn) {
  for (const bool in_turn : {false, true}) {
    std::vector<int> taken;
    std::string what;
    OrderedWork work(GetParam());
    try {
      for (int i = 0; i < 300; ++i)
        work.add(std::size_t{1} << 18, [&, i](std::size_t) -> OrderedWork::Turn {
          const auto fail = [i] { throw std::runtime_error(std::to_string(i)); };
          if (i == 50) std::this_thread::sleep_for(10ms);
          if (i == 60) fail();
          if (i == 50 && !in_turn) fail();
          return [&, i, fail] {
            if (i == 50) fail();
            taken.push_back(i);
          };
        });
      work.finish();
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    EXPECT_EQ(what, "50");
    EXPECT_EQ(taken.size(), 50U);
    work.finish();
    EXPECT_EQ(taken.size(), 50U);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, OrderedWorkTest, testing::Values(1, 2, 5),
                         [](const auto& one) { return std::to_string(one.param); });

}  // namespace
}  // namespace trireme::text
