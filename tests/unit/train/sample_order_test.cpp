// The order of samples: a permutation in every epoch, which looks random.
// SPDX-License-Identifier: Apache-2.0
#include "train/sample_order.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "base/error.hpp"

namespace trireme::train {
namespace {

std::vector<std::int64_t> epoch_of(std::uint64_t seed, std::int64_t epoch,
                                   std::int64_t samples) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < samples; ++i)
    order.push_back(sample_at(seed, epoch * samples + i, samples));
  return order;
}

TEST(SampleOrder, EveryEpochVisitsEverySampleOnce) {
  std::vector<std::int64_t> sizes{1000, 1023, 1024, 1025, 4096, 4097, 65537};
  for (std::int64_t n = 1; n <= 70; ++n) sizes.push_back(n);
  for (const auto samples : sizes)
    for (const std::int64_t epoch : {0, 1, 5}) {
      std::vector<int> visits(static_cast<std::size_t>(samples));
      for (const auto sample : epoch_of(3, epoch, samples)) {
        ASSERT_TRUE(sample >= 0 && sample < samples) << sample << " of " << samples;
        ++visits[static_cast<std::size_t>(sample)];
      }
      for (const int count : visits) ASSERT_EQ(count, 1) << samples << " samples";
    }
}

TEST(SampleOrder, DiffersBetweenEpochsAndSeeds) {
  const auto order = epoch_of(1, 0, 500);
  EXPECT_EQ(epoch_of(1, 0, 500), order);
  EXPECT_NE(epoch_of(1, 1, 500), order);
  EXPECT_NE(epoch_of(2, 0, 500), order);
  // Epochs beyond 32 bits.
  EXPECT_NE(epoch_of(1, std::int64_t{1} << 32, 500), order);
}

// The order is part of what a seed means: runs that resume depend on it.
TEST(SampleOrder, StaysWhatItIs) {
  EXPECT_EQ(epoch_of(42, 0, 10),
            (std::vector<std::int64_t>{9, 8, 1, 6, 2, 0, 5, 3, 4, 7}));
  EXPECT_EQ(epoch_of(42, 1, 10),
            (std::vector<std::int64_t>{9, 4, 6, 0, 5, 3, 7, 2, 1, 8}));
}

TEST(SampleOrder, VeryLargeSources) {
  const std::int64_t samples = (std::int64_t{1} << 62) + 12345;
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const auto sample = sample_at(9, samples - 1 - i, samples);
    EXPECT_TRUE(sample >= 0 && sample < samples);
    EXPECT_TRUE(seen.insert(sample).second);
  }
}

// Over many seeds each of the 24 orders of 4 samples appears equally often, and the first
// sample of 10 is uniform. Chi-square with k degrees of freedom has mean k and standard
// deviation sqrt(2 k); 6 of them are exceeded once in far more than a million times.
TEST(SampleOrder, LooksRandomWhenSmall) {
  const double seeds = 24000;
  std::map<std::vector<std::int64_t>, double> orders;
  std::map<std::int64_t, double> firsts;
  for (std::uint64_t seed = 0; seed < 24000; ++seed) {
    ++orders[epoch_of(seed, 0, 4)];
    ++firsts[sample_at(seed, 0, 10)];
  }
  const auto chi_square = [&](const auto& counts, double kinds) {
    double sum = (kinds - static_cast<double>(counts.size())) * seeds / kinds;
    for (const auto& [kind, count] : counts)
      sum += std::pow(count - seeds / kinds, 2) / (seeds / kinds);
    return sum;
  };
  EXPECT_LT(chi_square(orders, 24), 23 + 6 * std::sqrt(2.0 * 23));
  EXPECT_LT(chi_square(firsts, 10), 9 + 6 * std::sqrt(2.0 * 9));
}

// Neighbours in the file are not neighbours in the order: the serial correlation of n
// shuffled numbers has standard deviation 1 / sqrt(n).
TEST(SampleOrder, HasNoSerialCorrelation) {
  const std::int64_t samples = 10007;
  const auto order = epoch_of(11, 0, samples);
  const double mean = static_cast<double>(samples - 1) / 2;
  double covariance = 0, variance = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const double here = static_cast<double>(order[i]) - mean;
    covariance += here * (static_cast<double>(order[i + 1]) - mean);
    variance += here * here;
  }
  EXPECT_LT(std::abs(covariance / variance), 6 / std::sqrt(static_cast<double>(samples)));
}

TEST(SampleOrder, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(sample_at(1, -1, 10), Error);
  EXPECT_THROW(sample_at(1, 0, 0), Error);
}

}  // namespace
}  // namespace trireme::train
