// StagingPool: which block serves whom, and which operations are finished at the limit.
// SPDX-License-Identifier: Apache-2.0
#include "comm/staging.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace trireme::comm {
namespace {

constexpr std::int64_t page = 4096;

class StagingPoolTest : public testing::Test {
 protected:
  struct Operation final : StagingPool::Holder {
    Operation(StagingPoolTest& pool_test, std::int64_t bytes, int numbered)
        : test(pool_test), number(numbered), block(pool_test.pool_.acquire(bytes)) {
      test.pool_.hold(block, *this);
    }
    void finish_and_release() override {
      test.finished_.push_back(number);
      test.pool_.release(block);
    }
    StagingPoolTest& test;
    int number, block;
  };

  Operation& start(std::int64_t bytes) {
    return operations_.emplace_back(*this, bytes, static_cast<int>(operations_.size()));
  }

  StagingPool pool_{Device::meta(), "test"};
  std::vector<int> finished_;
  std::deque<Operation> operations_;
};

TEST_F(StagingPoolTest, WithoutALimitThereIsABlockForEach) {
  for (int i = 0; i < 5; ++i) start(page);
  EXPECT_EQ(pool_.bytes(), 5 * page);
  EXPECT_TRUE(finished_.empty());
  pool_.release(operations_[2].block);
  EXPECT_EQ(start(page - 1).block, operations_[2].block);
  EXPECT_EQ(pool_.bytes(), 5 * page);
}

TEST_F(StagingPoolTest, TheOldestIsFinishedAtTheLimit) {
  pool_.set_limit(4 * page);
  for (int i = 0; i < 7; ++i) start(page);
  EXPECT_EQ(pool_.bytes(), 4 * page);
  EXPECT_EQ(finished_, (std::vector{0, 1, 2}));
  // One that has come to its end by itself is not asked.
  pool_.release(operations_[3].block);
  start(page);
  start(page);
  EXPECT_EQ(finished_, (std::vector{0, 1, 2, 4}));
}

TEST_F(StagingPoolTest, ALargerBlockServesAtTheLimit) {
  pool_.set_limit(4 * page);
  pool_.release(start(4 * page).block);
  EXPECT_EQ(start(page).block, operations_[0].block);
  EXPECT_EQ(pool_.bytes(), 4 * page);
  start(page);
  EXPECT_EQ(finished_, (std::vector{1}));
  EXPECT_EQ(pool_.bytes(), 4 * page);
}

TEST_F(StagingPoolTest, OneThatIsLargerThanAllIsMadeWhenNobodyElseHoldsAny) {
  pool_.set_limit(2 * page);
  start(page);
  start(page);
  start(8 * page);
  EXPECT_EQ(finished_, (std::vector{0, 1}));
  EXPECT_EQ(pool_.bytes(), 10 * page);
  // Blocks without a holder are not waited for.
  const int block = pool_.acquire(page);
  EXPECT_NE(block, StagingPool::none);
  EXPECT_EQ(pool_.bytes(), 10 * page);
  EXPECT_EQ(pool_.acquire(0), StagingPool::none);
}

}  // namespace
}  // namespace trireme::comm
