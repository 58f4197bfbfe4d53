// Decisions about a step against the reference: sums in order, limits, clipping.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/step_decision.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/optimizer.hpp"
#include "kernels/reference/step_decision.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::kernels {
namespace {

using test::Tensor;
using test::test_device;
using test::Vector;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest = 0x1p50;

// Positive numbers whose sums have other bits in another order.
Vector rows_of(int ranks) {
  const Random random(5, 1);
  Vector rows;
  for (int i = 0; i < 2 * ranks; ++i)
    rows.push_back(std::exp(8 * random.uniform(static_cast<std::uint64_t>(i)) - 4));
  return rows;
}

Vector decide(const StepRule& rule, const Vector& rows) {
  Tensor in(DType::f64, {std::ssize(rows) / 2, 2}), out(DType::f64, {4});
  in.set(rows);
  Stream stream(test_device());
  decide_step(stream, rule, in.view(), out.view());
  stream.synchronize();
  return out.values();
}

void expect_same(const Vector& actual, const Vector& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << i;
    } else {
      EXPECT_EQ(actual[i], expected[i]) << i;  // to the bit
    }
  }
}

struct Ranks {
  int stages, in_stage, tensor;
};

TEST(StepDecision, HasTheBitsOfSumsInTheOrderOfRanks) {
  for (const auto& [stages, in_stage, tensor] :
       {Ranks{1, 1, 1}, Ranks{1, 3, 1}, Ranks{1, 4, 2}, Ranks{3, 6, 3}, Ranks{5, 1, 1},
        Ranks{2, 257, 1}, Ranks{7, 120, 8}})
    for (const double clip : {0.0, 1.0, 1e9}) {
      SCOPED_TRACE(testing::Message() << stages << " stages of " << in_stage << " ranks");
      const StepRule rule{.items = 7,
                          .clip = clip,
                          .limits = {true, largest},
                          .in_stage = in_stage,
                          .tensor = tensor};
      const Vector rows = rows_of(stages * in_stage);
      expect_same(decide(rule, rows), reference::decide_step(rule, rows));
    }
}

TEST(StepDecision, ClipsANormBeyondTheLimitAlone) {
  const Vector five{2, 9, 3, 16};  // loss and squares of two ranks: a norm of 5
  EXPECT_EQ(decide({.clip = 0, .in_stage = 2}, five), (Vector{5, 5, 1, 1}));
  EXPECT_EQ(decide({.clip = 5, .in_stage = 2}, five), (Vector{5, 5, 1, 1}));
  EXPECT_EQ(decide({.clip = 2, .in_stage = 2}, five), (Vector{5, 5, 0.4, 1}));
  EXPECT_EQ(decide({.items = 5, .clip = 2, .in_stage = 2}, five), (Vector{1, 5, 0.4, 1}));
}

// A tensor group has its loss once; an unsound loss of any of its ranks is seen.
TEST(StepDecision, TakesTheLossOfOneTensorRank) {
  const StepRule rule{.limits = {true, largest}, .in_stage = 2, .tensor = 2};
  EXPECT_EQ(decide(rule, {2, 9, 2, 16}), (Vector{2, 5, 1, 1}));
  const Vector second = decide(rule, {2, 9, nan, 16});
  EXPECT_TRUE(std::isnan(second[decided_loss]));
  EXPECT_EQ(second[decided_sound], 0);
}

TEST(StepDecision, IsUnsoundWhereLossOrNormCannotBeUsed) {
  const Vector wrong[] = {{nan, 1},  {infinity, 1}, {-infinity, 1},
                          {1, nan},  {1, infinity}, {1, largest * largest * 4},
                          {nan, nan}};
  const StepRule strict{.clip = 1, .limits = {true, largest}},
      any{.clip = 1, .limits = {}};
  for (const Vector& rows : wrong) {
    SCOPED_TRACE(testing::PrintToString(rows));
    expect_same(decide(strict, rows), reference::decide_step(strict, rows));
    EXPECT_EQ(decide(strict, rows)[decided_sound], 0);
    expect_same(decide(any, rows), reference::decide_step(any, rows));
    EXPECT_EQ(decide(any, rows)[decided_sound], 1);
  }
  EXPECT_EQ(decide(strict, {1, largest * largest})[decided_sound], 1);  // just within
}

TEST(StepDecision, RefusesRowsThatAreNoStages) {
  EXPECT_THROW(decide({.in_stage = 2}, rows_of(3)), Error);
  EXPECT_THROW(decide({.in_stage = 3, .tensor = 2}, rows_of(3)), Error);
}

// The tensors of an update of n elements.
struct State {
  explicit State(std::int64_t n, bool states)
      : master(DType::f32, {n}),
        gradient(DType::f32, {n}),
        first(DType::f32, {n}),
        second(DType::f32, {n}),
        weight(DType::bf16, {n}),
        has_states(states) {
    Vector values;
    for (std::int64_t i = 0; i < n; ++i)
      values.push_back(static_cast<double>(i % 97) / 64 - 0.75);
    for (Tensor* x : {&master, &gradient, &first, &second, &weight}) x->set(values);
    second.set(Vector(static_cast<std::size_t>(n), 0.5));
  }
  UpdateTensors tensors() const {
    return {master.view(),
            gradient.view(),
            {has_states ? first.view() : TensorView(),
             has_states ? second.view() : TensorView()},
            weight.view()};
  }
  std::vector<Vector> values() const {
    return {master.values(), gradient.values(), first.values(), second.values(),
            weight.values()};
  }

  Tensor master, gradient, first, second, weight;
  bool has_states;
};

void expect_update(UpdateFormula formula, double sound) {
  constexpr double scale = 0.3;
  Stream stream(test_device());
  Tensor decision(DType::f64, {decision_values});
  decision.set({1.5, 2.5, scale, sound});
  for (const std::int64_t n : {1, 7, 1023, 5000}) {
    const bool states = formula != UpdateFormula::sgd;
    const State decided(n, states), told(n, states);
    const std::vector<Vector> before = decided.values();
    Update rule{.formula = formula, .learning_rate = 0.1, .weight_decay = 0.1, .step = 3};
    const UpdateTensors x = decided.tensors();
    rule.gradient_scale = 1e30;  // which the decision takes the place of
    update_all(stream, {&rule, 1}, {&x, 1}, decision.view());
    if (sound == 0) {
      EXPECT_EQ(decided.values(), before) << n;
      continue;
    }
    rule.gradient_scale = scale;
    const UpdateTensors y = told.tensors();
    update_all(stream, {&rule, 1}, {&y, 1});
    EXPECT_EQ(decided.values(), told.values()) << n;
    EXPECT_NE(decided.values(), before) << n;
  }
}

// An update that reads the factor has the bits of one that is told it; of a step that is
// not sound it changes nothing.
TEST(StepDecision, RulesTheUpdate) {
  for (const UpdateFormula formula :
       {UpdateFormula::adamw, UpdateFormula::sgd, UpdateFormula::momentum,
        UpdateFormula::lion, UpdateFormula::direction})
    for (const double sound : {1.0, 0.0}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(formula) << " " << sound);
      expect_update(formula, sound);
    }
}

}  // namespace
}  // namespace trireme::kernels
