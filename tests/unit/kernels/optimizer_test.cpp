// AdamW and SGD against the reference, a path known in closed form, and thread counts.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/optimizer.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::kernels {
namespace {

using test::Tensor;
using test::test_device;
using test::Vector;

constexpr std::int64_t sizes[] = {0, 1, 3, 8, 17, 1023, 1024, 1025, 40007};

// Uniform values in [-1, 1), exact in T, as doubles.
template <class T>
Vector draw(std::int64_t n, std::uint64_t stream) {
  const Random random(11, stream);
  Vector values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(
        static_cast<T>(2 * random.uniform(static_cast<std::uint64_t>(i)) - 1));
  return values;
}

// A vector of T on the device of the test; `skip` elements into a larger one, so that it
// need not be aligned.
template <class T>
class State {
 public:
  explicit State(std::int64_t n, std::int64_t skip = 0)
      : all_(dtype_of<T>, {n + skip}), n_(n), skip_(skip) {
    set(Vector(static_cast<std::size_t>(n)));
  }
  State(const Vector& values, std::int64_t skip = 0)
      : State(static_cast<std::int64_t>(values.size()), skip) {
    set(values);
  }
  operator TensorView() const { return all_.view().rows(skip_, n_); }  // NOLINT
  void set(Vector values) {
    values.insert(values.begin(), static_cast<std::size_t>(skip_), Tensor::mark);
    all_.set(values);
  }
  Vector values() const {
    const Vector all = all_.values();
    for (std::size_t i = 0; i < static_cast<std::size_t>(skip_); ++i)
      EXPECT_NEAR(all[i], Tensor::mark, 1.0) << "before the first element";
    return Vector(all.begin() + skip_, all.end());
  }

 private:
  Tensor all_;
  std::int64_t n_, skip_;
};

template <class T>
class Optimizer : public testing::Test {};
using Masters = testing::Types<float, double>;
TYPED_TEST_SUITE(Optimizer, Masters);

// Steps of AdamW on n elements that begin `skip` elements into their buffers, the rounded
// weights `weight_skip` into theirs. Each step rounds a weight of size about 1 a few
// times, and the update, of size lr or less, about ten times: 8 eps a step in all. It
// also moves each moment's error on: after 100 steps that of the second is 100 eps of it
// at most, half of which, times lr, is half an eps of the update.
template <class T, class W>
void follow_adamw(std::int64_t n, std::int64_t skip, std::int64_t weight_skip,
                  int steps = 5) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  const State<T> w(draw<T>(n, 1), skip), m(n, skip), v(n, skip);
  State<T> g(n, skip);
  const State<W> rounded(n, weight_skip);
  const Vector start = w.values();
  std::vector<reference::AdamWState> expected(start.size());
  for (std::size_t i = 0; i < start.size(); ++i) expected[i].weight = start[i];
  Stream stream(test_device());
  for (int step = 1; step <= steps; ++step) {
    const Update rule{
        .learning_rate = 0.01, .weight_decay = 0.1, .step = step, .gradient_scale = 0.25};
    const Vector gradient = draw<T>(n, static_cast<std::uint64_t>(step + 1));
    g.set(gradient);
    for (std::size_t i = 0; i < start.size(); ++i)
      expected[i] = reference::adamw(rule, expected[i], gradient[i]);
    update(stream, rule, w, g, {m, v}, rounded);
  }
  const Vector weights = w.values(), first = m.values(), second = v.values();
  const Vector copy = rounded.values();
  for (std::size_t i = 0; i < start.size(); ++i) {
    ASSERT_NEAR(weights[i], expected[i].weight, 8 * steps * eps) << i << " of " << n;
    ASSERT_NEAR(first[i], expected[i].moment1, 4 * steps * eps);
    ASSERT_NEAR(second[i], expected[i].moment2, 4 * steps * eps);
    ASSERT_EQ(copy[i], static_cast<double>(static_cast<Accumulator<W>>(
                           W(static_cast<Accumulator<W>>(weights[i])))));
  }
}

TYPED_TEST(Optimizer, AdamWFollowsTheReference) {
  for (const auto n : sizes) follow_adamw<TypeParam, BFloat16>(n, 0, 0);
  follow_adamw<TypeParam, BFloat16>(1025, 0, 0, 100);
}

// Pieces of flat buffers begin anywhere; the weights may begin elsewhere.
TYPED_TEST(Optimizer, AdamWFollowsTheReferenceWhereverTheBuffersBegin) {
  for (const std::int64_t n : {1, 2, 9, 1025})
    for (const std::int64_t skip : {1, 2, 3}) {
      follow_adamw<TypeParam, BFloat16>(n, skip, skip);
      follow_adamw<TypeParam, Float16>(n, skip, 0);
      follow_adamw<TypeParam, double>(n, skip, skip);
    }
}

// With a constant gradient the corrected moments are g and g^2 at every step, so that
// without decay each step moves the weight by lr g / (|g| + eps).
TYPED_TEST(Optimizer, AdamWWithAConstantGradientWalksAStraightLine) {
  using T = TypeParam;
  constexpr double eps = std::numeric_limits<T>::epsilon();
  const State<T> w(Vector{1, -2, 3}), m(3), v(3);
  State<T> g(3);
  const double gradients[] = {0.5, -1e-3, 40};
  Stream stream(test_device());
  constexpr int steps = 50;
  for (int step = 1; step <= steps; ++step) {
    g.set(Vector(std::begin(gradients), std::end(gradients)));
    const Update rule{.learning_rate = 0.01, .eps = 1e-3, .step = step};
    update(stream, rule, w, g, {m, v}, {});
  }
  const double start[] = {1, -2, 3};
  for (std::size_t i = 0; i < 3; ++i) {
    const double move = gradients[i] / (std::abs(gradients[i]) + 1e-3);
    // each step rounds the weight, below 4, once: half an eps of 4
    EXPECT_NEAR(w.values()[i], start[i] - 0.01 * steps * move, 4 * eps * steps);
  }
}

// One sweep over many tensors, more than a launch of a GPU takes, does to each what its
// own update does, to the bit, and leaves those between them alone.
TYPED_TEST(Optimizer, ASweepUpdatesEachTensorAsItsOwnUpdateDoes) {
  using T = TypeParam;
  constexpr std::int64_t tensors = 90;
  Stream stream(test_device());
  std::vector<Update> rules;
  std::vector<UpdateTensors> swept;
  std::vector<State<T>> states;
  states.reserve(tensors * 10);
  std::vector<State<BFloat16>> weights;
  weights.reserve(tensors * 2);
  const auto add = [&](std::int64_t i, const Update& rule) {
    const std::int64_t n = i % 7 == 0 ? 0 : 1 + i * 37 % 3000, skip = i % 4;
    const auto seed = static_cast<std::uint64_t>(i);
    const auto first = states.size();
    for (std::uint64_t j = 0; j < 4; ++j)
      states.emplace_back(
          j == 3 ? Vector(static_cast<std::size_t>(n), 0.5) : draw<T>(n, 4 * seed + j),
          skip);
    weights.emplace_back(n, skip);
    rules.push_back(rule);
    swept.push_back({states[first],
                     states[first + 1],
                     {states[first + 2], states[first + 3]},
                     weights.back()});
  };
  for (std::int64_t i = 0; i < tensors; ++i)
    for (int copy = 0; copy < 2; ++copy)
      add(i, {.learning_rate = 0.01 * static_cast<double>(i + 1),
              .weight_decay = i % 2 == 0 ? 0.1 : 0.0,
              .step = 3});
  std::vector<Update> of_sweep;
  std::vector<UpdateTensors> in_sweep;
  for (std::size_t i = 0; i < swept.size(); i += 2) {
    of_sweep.push_back(rules[i]);
    in_sweep.push_back(swept[i]);
    const UpdateTensors& x = swept[i + 1];
    update(stream, rules[i + 1], x.master, x.gradient, x.states, x.weight);
  }
  update_all(stream, of_sweep, in_sweep);
  for (std::size_t i = 0; i < states.size(); i += 8)
    for (std::size_t j = 0; j < 4; ++j)
      ASSERT_EQ(states[i + j].values(), states[i + 4 + j].values()) << i << " " << j;
  for (std::size_t i = 0; i < weights.size(); i += 2)
    ASSERT_EQ(weights[i].values(), weights[i + 1].values()) << i;
}

TEST(OptimizerSweep, RefusesAnotherFormula) {
  Stream stream(test_device());
  const State<float> w(3), g(3), m(3), v(3);
  const UpdateTensors x{w, g, {m, v}, {}};
  const std::vector<Update> rules = {{}, {.formula = UpdateFormula::sgd}};
  const std::vector<UpdateTensors> tensors = {x, x};
  EXPECT_THROW(update_all(stream, rules, tensors), Error);
  EXPECT_THROW(update_all(stream, rules, std::span(tensors).first(1)), Error);
}

// Four steps of SGD on buffers that begin `skip` elements into larger ones.
template <class T>
void follow_sgd(std::int64_t n, std::int64_t skip, bool with_momentum) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  const State<T> w(draw<T>(n, 1), skip), buffer(n, skip), copy(n, skip);
  State<T> g(n, skip);
  const Vector start = w.values();
  std::vector<reference::SgdState> expected(start.size());
  for (std::size_t i = 0; i < start.size(); ++i) expected[i].weight = start[i];
  Stream stream(test_device());
  const Update rule{
      .formula = with_momentum ? UpdateFormula::momentum : UpdateFormula::sgd,
      .learning_rate = 0.1,
      .beta1 = with_momentum ? 0.9 : 0.0,
      .weight_decay = 0.1,
      .gradient_scale = 0.5};
  for (std::uint64_t step = 1; step <= 4; ++step) {
    const Vector gradient = draw<T>(n, step + 1);
    g.set(gradient);
    for (std::size_t i = 0; i < start.size(); ++i)
      expected[i] = reference::sgd(rule, expected[i], gradient[i]);
    update(stream, rule, w, g, {with_momentum ? TensorView(buffer) : TensorView(), {}},
           copy);
  }
  const Vector weights = w.values();
  for (std::size_t i = 0; i < start.size(); ++i)
    ASSERT_NEAR(weights[i], expected[i].weight, 4 * 4 * eps) << i << " of " << n;
  EXPECT_EQ(copy.values(), weights);
}

TYPED_TEST(Optimizer, SgdFollowsTheReference) {
  for (const bool with_momentum : {false, true}) {
    for (const auto n : sizes) follow_sgd<TypeParam>(n, 0, with_momentum);
    for (const std::int64_t skip : {1, 2, 3})
      follow_sgd<TypeParam>(1025, skip, with_momentum);
  }
}

struct LionState {
  double weight = 0, moment = 0;
};

// Source: Chen et al., "Symbolic discovery of optimization algorithms", 2023, program 1,
// line by line.
LionState lion(const Update& rule, LionState state, double gradient) {
  const double g = gradient * rule.gradient_scale;
  const double mixed = rule.beta1 * state.moment + (1 - rule.beta1) * g;
  const double sign = mixed == 0 ? 0 : std::copysign(1.0, mixed);
  state.weight -= rule.learning_rate * (sign + rule.weight_decay * state.weight);
  state.moment = rule.beta2 * state.moment + (1 - rule.beta2) * g;
  return state;
}

// Ten steps; a gradient and a moment that are both 0 move nothing but by decay. The sign
// is that of a sum of two terms of size 1: elements where it is within a few eps of 0 may
// go either way, and none is drawn.
template <class T>
void follow_lion(std::int64_t n, std::int64_t skip) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  constexpr int steps = 10;
  const State<T> w(draw<T>(n, 1), skip), m(n, skip), copy(n, skip);
  State<T> g(n, skip);
  const Vector start = w.values();
  std::vector<LionState> expected(start.size());
  for (std::size_t i = 0; i < start.size(); ++i) expected[i].weight = start[i];
  Stream stream(test_device());
  const Update rule{.formula = UpdateFormula::lion,
                    .learning_rate = 0.01,
                    .beta1 = 0.9,
                    .beta2 = 0.99,
                    .weight_decay = 0.1,
                    .gradient_scale = 0.5};
  for (std::uint64_t step = 1; step <= steps; ++step) {
    Vector gradient = draw<T>(n, step + 1);
    gradient[0] = 0;
    g.set(gradient);
    for (std::size_t i = 0; i < start.size(); ++i)
      expected[i] = lion(rule, expected[i], gradient[i]);
    update(stream, rule, w, g, {m, {}}, copy);
  }
  const Vector weights = w.values(), moments = m.values();
  EXPECT_NEAR(weights[0], start[0] * std::pow(1 - 0.001, steps), 4 * steps * eps);
  for (std::size_t i = 0; i < start.size(); ++i) {
    ASSERT_NEAR(weights[i], expected[i].weight, 4 * steps * eps) << i << " of " << n;
    ASSERT_NEAR(moments[i], expected[i].moment, 4 * steps * eps) << i << " of " << n;
  }
  EXPECT_EQ(copy.values(), weights);
}

TYPED_TEST(Optimizer, LionFollowsItsPublishedFormula) {
  for (const std::int64_t n : {1, 17, 1025}) follow_lion<TypeParam>(n, 0);
  for (const std::int64_t skip : {1, 2, 3}) follow_lion<TypeParam>(1025, skip);
}

// Blocks begin at the same elements whatever the threads: the bits are the same. A sweep
// inside a parallel region runs on one thread.
TYPED_TEST(Optimizer, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  constexpr std::int64_t n = 100003;
  const auto run = [&] {
    Vector squares = draw<T>(n, 4);
    for (double& x : squares) x = std::abs(x);
    const State<T> w(draw<T>(n, 1)), g(draw<T>(n, 2)), m(draw<T>(n, 3)), v(squares);
    Stream stream(test_device());
    update(stream, {.learning_rate = 0.01, .weight_decay = 0.1, .step = 3}, w, g, {m, v},
           {});
    return std::vector<Vector>{w.values(), m.values(), v.values()};
  };
  const auto parallel = run();
  std::vector<Vector> serial;
#pragma omp parallel num_threads(2)
#pragma omp single
  serial = run();
  EXPECT_EQ(serial, parallel);
}

TYPED_TEST(Optimizer, RefusesWhatDoesNotFit) {
  using T = TypeParam;
  const State<T> w(4), g(4), m(4), v(3);
  Stream stream(test_device());
  EXPECT_THROW(update(stream, {}, w, g, {m, v}, {}), Error);
  EXPECT_THROW(update(stream, {.step = 0}, w, g, {m, m}, {}), Error);
  EXPECT_THROW(update(stream, {.formula = UpdateFormula::momentum}, w, g, {}, {}), Error);
}

}  // namespace
}  // namespace trireme::kernels
