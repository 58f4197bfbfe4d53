// Background: one piece of work at a time, and what it throws.
// SPDX-License-Identifier: Apache-2.0
#include "io/background.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace trireme::io {
namespace {

TEST(Background, RunsBesideItsOwner) {
  Background background;
  std::atomic<bool> may_end = false;
  EXPECT_FALSE(background.busy());
  background.start([&] {
    while (!may_end) std::this_thread::yield();
  });
  EXPECT_TRUE(background.busy());
  EXPECT_THROW(background.start([] {}), Error);
  may_end = true;
  background.finish();
  EXPECT_FALSE(background.busy());
  background.finish();  // nothing to do
}

TEST(Background, ThrowsWhatTheWorkThrewOnce) {
  Background background;
  for (const RunIn run_in : {RunIn::own_thread, RunIn::caller}) {
    background.start([] { fail(Status::io, "the disk is gone"); }, run_in);
    try {
      background.finish();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::io);
      EXPECT_STREQ(error.what(), "the disk is gone");
    }
    background.finish();
  }
}

TEST(Background, WithoutAThreadFinishDoesTheWork) {
  Background background;
  std::thread::id worker;
  background.start([&] { worker = std::this_thread::get_id(); }, RunIn::caller);
  EXPECT_FALSE(background.busy());
  EXPECT_EQ(worker, std::thread::id());
  background.finish();
  EXPECT_EQ(worker, std::this_thread::get_id());
}

// What the writer's thread does with plain memory: written before start() by one thread,
// read by the other, and back after finish(). For the thread sanitizer.
TEST(Background, PlainMemoryPassesBothWays) {
  Background background;
  std::vector<int> data(1000);
  for (int round = 1; round <= 50; ++round) {
    for (int& value : data) value = round;
    int sum = 0;
    background.start([&data, &sum] {
      for (int& value : data) sum += value++;
    });
    while (background.busy()) std::this_thread::yield();
    background.finish();
    EXPECT_EQ(sum, 1000 * round);
    EXPECT_EQ(data[999], round + 1);
  }
}

TEST(Background, DestroyedItWaits) {
  std::atomic<bool> ended = false;
  {
    Background background;
    background.start([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
    });
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace trireme::io
