// ExactSums: the same bits in any order, and the sum to within the grid.
// SPDX-License-Identifier: Apache-2.0
#include "optim/exact_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "comm/mesh.hpp"

namespace trireme::optim {
namespace {

constexpr std::int64_t elements = 1000;

// One flat parameter of one rank.
struct OneFlat {
  comm::Mesh mesh = comm::Mesh::meta({}, 0);
  FlatLayout layout;
  Stream stream;

  OneFlat() {
    FlatParameter flat;
    flat.elements = elements;
    flat.shard_group = flat.replicate_group = flat.sum_group = &mesh.replicas();
    layout.flats.push_back(flat);
    layout.trained_unsharded_elements = elements;
  }

  std::vector<float> sum(std::vector<std::vector<float>> terms) {
    ExactSums sums(stream, layout, Device::host());
    sums.clear();
    for (std::vector<float>& term : terms)
      sums.add(layout.flats.front(), TensorView(term.data(), DType::f32, {elements}));
    std::vector<float> result(elements);
    sums.finish(TensorView(result.data(), DType::f32, {elements}));
    return result;
  }
};

// Numbers of every size from 2^-70 to 2^3, and of both signs.
std::vector<std::vector<float>> terms_of_all_sizes(int count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> number(-1, 1);
  std::uniform_int_distribution<int> exponent(-70, 3);
  std::vector<std::vector<float>> terms(static_cast<std::size_t>(count));
  for (std::vector<float>& term : terms)
    for (std::int64_t i = 0; i < elements; ++i)
      term.push_back(std::ldexp(number(random), exponent(random)));
  return terms;
}

TEST(ExactSums, NoOrderChangesABit) {
  OneFlat one;
  auto terms = terms_of_all_sizes(16);
  const std::vector<float> expected = one.sum(terms);
  std::mt19937 random(3);
  for (int round = 0; round < 10; ++round) {
    std::shuffle(terms.begin(), terms.end(), random);
    EXPECT_EQ(one.sum(terms), expected);
  }
}

TEST(ExactSums, HalfAStepOfTheGridRoundsAlikeInAnyOrder) {
  OneFlat one;
  const float half = std::ldexp(1.0f, -45);  // of a step
  const auto of = [](float value) { return std::vector<float>(elements, value); };
  const float step = 2 * half;
  EXPECT_EQ(one.sum({of(half), of(step), of(3 * half)}),
            one.sum({of(step), of(3 * half), of(half)}));
}

TEST(ExactSums, AreTheSum) {
  OneFlat one;
  const auto terms = terms_of_all_sizes(16);
  const std::vector<float> sums = one.sum(terms);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    double sum = 0;
    for (const auto& term : terms) sum += static_cast<double>(term[i]);
    // Half a step of the grid for each term, and half a unit of the result.
    const double bound = 8 * ExactSums::grid + std::ldexp(std::abs(sum), -24);
    EXPECT_NEAR(static_cast<double>(sums[i]), sum, bound);
  }
}

TEST(ExactSums, KeepWhatIsNotFinite) {
  OneFlat one;
  std::vector<float> term(elements, 1);
  term[3] = std::nanf("");
  term[5] = INFINITY;
  const std::vector<float> sums = one.sum({term, term});
  EXPECT_TRUE(std::isnan(sums[3]));
  EXPECT_TRUE(std::isinf(sums[5]));
  EXPECT_EQ(sums[4], 2);
}

}  // namespace
}  // namespace trireme::optim
