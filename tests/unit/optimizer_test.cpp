// AdamW and SGD against the reference, a path known in closed form, and thread counts.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.hpp"
#include "kernels/reference/optimizer.hpp"

namespace trireme::kernels {
namespace {

constexpr std::int64_t sizes[] = {0, 1, 3, 17, 1023, 1024, 1025, 40007};

// Uniform values in [-1, 1); `offset` apart for apart draws.
template <class T>
std::vector<T> draw(std::int64_t n, std::uint64_t stream) {
  const Random random(11, stream);
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(
        static_cast<T>(2 * random.uniform(static_cast<std::uint64_t>(i)) - 1));
  return values;
}

template <class T>
TensorView view(std::vector<T>& values) {
  return TensorView(values.data(), dtype_of<T>,
                    {static_cast<std::int64_t>(values.size())});
}

template <class T>
class Optimizer : public testing::Test {};
using Masters = testing::Types<float, double>;
TYPED_TEST_SUITE(Optimizer, Masters);

// Each step rounds a weight of size about 1 a few times, and the update, of size lr or
// less, about ten times: 8 eps a step in all.
TYPED_TEST(Optimizer, AdamWFollowsTheReference) {
  using T = TypeParam;
  constexpr double eps = std::numeric_limits<T>::epsilon();
  constexpr int steps = 5;
  for (const auto n : sizes) {
    auto w = draw<T>(n, 1), m = std::vector<T>(w.size()), v = m, g = m;
    std::vector<BFloat16> rounded(w.size());
    std::vector<reference::AdamWState> expected(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) expected[i].weight = w[i];
    Stream stream;
    for (int step = 1; step <= steps; ++step) {
      const AdamW rule{.learning_rate = 0.01,
                       .weight_decay = 0.1,
                       .step = step,
                       .gradient_scale = 0.25};
      g = draw<T>(n, static_cast<std::uint64_t>(step + 1));
      for (std::size_t i = 0; i < w.size(); ++i)
        expected[i] = reference::adamw(rule, expected[i], g[i]);
      adamw(stream, rule, view(w), view(g), view(m), view(v), view(rounded));
    }
    for (std::size_t i = 0; i < w.size(); ++i) {
      ASSERT_NEAR(w[i], expected[i].weight, 8 * steps * eps) << i << " of " << n;
      ASSERT_NEAR(m[i], expected[i].moment1, 4 * steps * eps);
      ASSERT_NEAR(v[i], expected[i].moment2, 4 * steps * eps);
      ASSERT_EQ(g[i], 0);
      ASSERT_EQ(rounded[i].bits, BFloat16(static_cast<float>(w[i])).bits);
    }
  }
}

// With a constant gradient the corrected moments are g and g^2 at every step, so that
// without decay each step moves the weight by lr g / (|g| + eps).
TYPED_TEST(Optimizer, AdamWWithAConstantGradientWalksAStraightLine) {
  using T = TypeParam;
  constexpr double eps = std::numeric_limits<T>::epsilon();
  std::vector<T> w{1, -2, 3}, m(3), v(3), g(3);
  const double gradients[] = {0.5, -1e-3, 40};
  Stream stream;
  constexpr int steps = 50;
  for (int step = 1; step <= steps; ++step) {
    for (std::size_t i = 0; i < 3; ++i) g[i] = static_cast<T>(gradients[i]);
    const AdamW rule{.learning_rate = 0.01, .eps = 1e-3, .step = step};
    adamw(stream, rule, view(w), view(g), view(m), view(v), {});
  }
  const double start[] = {1, -2, 3};
  for (std::size_t i = 0; i < 3; ++i) {
    const double move = gradients[i] / (std::abs(gradients[i]) + 1e-3);
    // each step rounds the weight, below 4, once: half an eps of 4
    EXPECT_NEAR(w[i], start[i] - 0.01 * steps * move, 4 * eps * steps);
  }
}

TYPED_TEST(Optimizer, SgdFollowsTheReference) {
  using T = TypeParam;
  constexpr double eps = std::numeric_limits<T>::epsilon();
  for (const bool with_momentum : {false, true}) {
    for (const auto n : sizes) {
      auto w = draw<T>(n, 1), buffer = std::vector<T>(w.size());
      std::vector<T> g, copy(w.size());
      std::vector<reference::SgdState> expected(w.size());
      for (std::size_t i = 0; i < w.size(); ++i) expected[i].weight = w[i];
      Stream stream;
      const Sgd rule{.learning_rate = 0.1,
                     .momentum = with_momentum ? 0.9 : 0.0,
                     .weight_decay = 0.1,
                     .gradient_scale = 0.5};
      for (std::uint64_t step = 1; step <= 4; ++step) {
        g = draw<T>(n, step + 1);
        for (std::size_t i = 0; i < w.size(); ++i)
          expected[i] = reference::sgd(rule, expected[i], g[i]);
        sgd(stream, rule, view(w), view(g), with_momentum ? view(buffer) : TensorView(),
            view(copy));
      }
      for (std::size_t i = 0; i < w.size(); ++i) {
        ASSERT_NEAR(w[i], expected[i].weight, 4 * 4 * eps);
        ASSERT_EQ(g[i], 0);
        ASSERT_EQ(copy[i], w[i]);
      }
    }
  }
}

// Blocks begin at the same elements whatever the threads: the bits are the same. A sweep
// inside a parallel region runs on one thread.
TYPED_TEST(Optimizer, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  constexpr std::int64_t n = 100003;
  const auto run = [&] {
    auto w = draw<T>(n, 1), g = draw<T>(n, 2), m = draw<T>(n, 3), v = draw<T>(n, 4);
    for (T& x : v) x = std::abs(x);
    Stream stream;
    adamw(stream, {.learning_rate = 0.01, .weight_decay = 0.1, .step = 3}, view(w),
          view(g), view(m), view(v), {});
    return std::vector<std::vector<T>>{w, m, v};
  };
  const auto parallel = run();
  std::vector<std::vector<T>> serial;
#pragma omp parallel num_threads(2)
#pragma omp single
  serial = run();
  EXPECT_EQ(serial, parallel);
}

TYPED_TEST(Optimizer, RefusesWhatDoesNotFit) {
  using T = TypeParam;
  std::vector<T> w(4), g(4), m(4), v(3);
  Stream stream;
  EXPECT_THROW(adamw(stream, {}, view(w), view(g), view(m), view(v), {}), Error);
  EXPECT_THROW(adamw(stream, {.step = 0}, view(w), view(g), view(m), view(m), {}), Error);
  EXPECT_THROW(sgd(stream, {.momentum = 0.9}, view(w), view(g), {}, {}), Error);
}

}  // namespace
}  // namespace trireme::kernels
