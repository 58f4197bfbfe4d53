// The optimizer's rules, alone and in a sweep, its matrices, and decisions of a step.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/optimizer.hpp"
#include "kernels/orthogonalize.hpp"
#include "kernels/reference/optimizer.hpp"
#include "kernels/reference/step_decision.hpp"
#include "kernels/step_decision.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;
using kernels::Update;
using kernels::UpdateFormula;

// A weight and what a rule keeps of it.
struct Element {
  double weight = 0, first = 0, second = 0;
};

// Source of Lion: Chen et al., 2023, program 1, line by line.
Element lion(const Update& rule, Element x, double gradient) {
  const double g = gradient * rule.gradient_scale;
  const double mixed = rule.beta1 * x.first + (1 - rule.beta1) * g;
  const double sign = mixed == 0 ? 0 : std::copysign(1.0, mixed);
  x.weight -= rule.learning_rate * (sign + rule.weight_decay * x.weight);
  x.first = rule.beta2 * x.first + (1 - rule.beta2) * g;
  return x;
}

Element stepped(const Update& rule, const Element& x, double gradient) {
  if (rule.formula == UpdateFormula::lion) return lion(rule, x, gradient);
  if (rule.formula == UpdateFormula::adamw) {
    const auto y = reference::adamw(rule, {x.weight, x.first, x.second}, gradient);
    return {y.weight, y.moment1, y.moment2};
  }
  const auto y = reference::sgd(rule, {x.weight, x.first}, gradient);
  return {y.weight, y.buffer, 0};
}

// Three steps of one rule. Each rounds a weight of size up to 4 a few times, and the
// update, of size lr or less, about ten times: 8 eps of the largest weight a step.
void check_rule(Probe& probe, DType dtype, Update rule) {
  constexpr std::int64_t n = 1025;
  constexpr int steps = 3;
  const int states = kernels::states_of(rule.formula);
  const Tensor weight = probe.normal(dtype, {n}, 1);
  const Tensor first = probe.zeros(dtype, {n}), second = probe.zeros(dtype, {n});
  const Tensor copy = probe.zeros(DType::bf16, {n});
  std::vector<Element> right;
  for (const double w : weight.values()) right.push_back({w});
  for (int step = 1; step <= steps; ++step) {
    rule.step = step;
    const Tensor gradient =
        probe.normal(dtype, {n}, static_cast<std::uint64_t>(step + 1));
    const Vector values = gradient.values();
    for (std::size_t i = 0; i < right.size(); ++i)
      right[i] = stepped(rule, right[i], values[i]);
    kernels::update(probe.stream(), rule, weight, gradient,
                    {states > 0 ? first.view() : TensorView(),
                     states > 1 ? second.view() : TensorView()},
                    copy);
    probe.equal(gradient.values(), values);
  }
  Vector weights, firsts, seconds;
  for (const Element& x : right) {
    weights.push_back(x.weight);
    firsts.push_back(x.first);
    seconds.push_back(x.second);
  }
  const double error = 8 * steps * 2 * roundoff(dtype);
  probe.close(dtype, weight.values(), weights, error * largest(weights));
  if (states > 0)
    probe.close(dtype, first.values(), firsts, error * (1 + largest(firsts)));
  if (states > 1)
    probe.close(dtype, second.values(), seconds, error * (1 + largest(seconds)));
  probe.equal(copy.values(), rounded(DType::bf16, weight.values()));
}

// One of the tensors of a sweep, and what it was.
struct Swept {
  Swept(Probe& probe, DType dtype, std::int64_t n, std::uint64_t seed)
      : weight(probe.normal(dtype, {n}, seed)),
        gradient(probe.normal(dtype, {n}, seed + 1)),
        first(probe.normal(dtype, {n}, seed + 2)),
        second(probe.filled(dtype, {n}, Vector(static_cast<std::size_t>(n), 0.5))),
        copy(probe.zeros(DType::bf16, {n})) {}
  kernels::UpdateTensors tensors() const {
    return {weight, gradient, {first, second}, copy};
  }

  Tensor weight, gradient, first, second, copy;
};

// More tensors than one launch takes, each with a rule of its own, by a decision that is
// read when the work runs. Bounds are those of one step of a rule.
void check_sweep(Probe& probe, DType dtype, bool sound) {
  constexpr int count = 71;
  constexpr double factor = 0.25;
  std::vector<Swept> swept;
  std::vector<Update> rules;
  std::vector<kernels::UpdateTensors> tensors;
  std::vector<Element> right;
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<std::uint64_t>(3 * i + 1);
    swept.emplace_back(probe, dtype, 1 + i * 37 % 300, seed);
    rules.push_back({.learning_rate = 0.01 * (i + 1), .weight_decay = 0.1, .step = 3});
    rules.back().gradient_scale = 1e30;  // which the decision takes the place of
    tensors.push_back(swept.back().tensors());
    Update rule = rules.back();
    rule.gradient_scale = factor;
    const Vector w = swept.back().weight.values(), g = swept.back().gradient.values(),
                 m = swept.back().first.values(), v = swept.back().second.values();
    for (std::size_t j = 0; j < w.size(); ++j)
      right.push_back(sound ? stepped(rule, {w[j], m[j], v[j]}, g[j])
                            : Element{w[j], m[j], v[j]});
  }
  const Tensor decision = probe.filled(DType::f64, {kernels::decision_values},
                                       {1.5, 2.5, factor, double(sound)});
  kernels::update_all(probe.stream(), rules, tensors, decision);
  Vector weights, firsts, seconds, made, made_first, made_second;
  for (const Element& x : right) {
    weights.push_back(x.weight);
    firsts.push_back(x.first);
    seconds.push_back(x.second);
  }
  const auto append = [](Vector& all, const Vector& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  for (const Swept& x : swept) {
    append(made, x.weight.values());
    append(made_first, x.first.values());
    append(made_second, x.second.values());
    probe.equal(x.copy.values(), sound ? rounded(DType::bf16, x.weight.values())
                                       : Vector(x.copy.values().size()));
  }
  const double error = sound ? 8 * 2 * roundoff(dtype) : 0;
  probe.close(dtype, made, weights, error * largest(weights));
  probe.close(dtype, made_first, firsts, error * (1 + largest(firsts)));
  probe.close(dtype, made_second, seconds, error * (1 + largest(seconds)));
}

// C [M, N] = A [M, K] B [K, N] in double.
Vector product(const Vector& a, const Vector& b, std::int64_t M, std::int64_t K,
               std::int64_t N) {
  Vector c(static_cast<std::size_t>(M * N));
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t k = 0; k < K; ++k)
      for (std::int64_t j = 0; j < N; ++j)
        c[static_cast<std::size_t>(i * N + j)] += a[static_cast<std::size_t>(i * K + k)] *
                                                  b[static_cast<std::size_t>(k * N + j)];
  return c;
}

Vector turned(const Vector& a, std::int64_t R, std::int64_t C) {
  Vector t(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    t[i % static_cast<std::size_t>(C) * static_cast<std::size_t>(R) +
      i / static_cast<std::size_t>(C)] = a[i];
  return t;
}

// The lines of Jordan et al., 2024, always from the left.
Vector orthogonalized(Vector x, std::int64_t R, std::int64_t C, int steps) {
  const double length = std::max(norm(x), 1e-7);
  for (double& v : x) v /= length;
  for (int step = 0; step < steps; ++step) {
    const Vector square = product(x, turned(x, R, C), R, C, R);
    Vector polynomial = product(square, square, R, R, R);
    for (std::size_t i = 0; i < square.size(); ++i)
      polynomial[i] = -4.775 * square[i] + 2.0315 * polynomial[i];
    const Vector rest = product(polynomial, x, R, R, C);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + rest[i];
  }
  return x;
}

}  // namespace

void check_optimizers(Probe& probe, DType dtype) {
  Update rule{
      .learning_rate = 0.01, .weight_decay = 0.1, .step = 1, .gradient_scale = 0.25};
  for (const auto formula :
       {UpdateFormula::adamw, UpdateFormula::momentum, UpdateFormula::lion}) {
    rule.formula = formula;
    rule.beta1 = 0.9;
    check_rule(probe, dtype, rule);
  }
  rule.formula = UpdateFormula::sgd;
  rule.beta1 = 0;
  check_rule(probe, dtype, rule);
}

// Of 600 ranks in 5 stages: sums in their order, which has one result.
void check_step_decision(Probe& probe, DType dtype) {
  constexpr std::int64_t ranks = 600;
  const Tensor rows = probe.normal(dtype, {ranks, 2}, 21);
  const Tensor decision = probe.zeros(dtype, {kernels::decision_values});
  Vector values = rows.values();
  for (double& x : values) x *= x;  // squares are not negative
  rows.set(values);
  for (const double largest : {1.0, 1e9}) {
    const kernels::StepRule rule{
        .items = 7, .clip = 1, .limits = {true, largest}, .in_stage = 120, .tensor = 8};
    kernels::decide_step(probe.stream(), rule, rows, decision);
    probe.equal(decision.values(), reference::decide_step(rule, values));
  }
}

void check_update_sweep(Probe& probe, DType dtype) {
  for (const bool sound : {true, false}) check_sweep(probe, dtype, sound);
}

// Each of five steps rounds four matrices to half a unit of the type: 20 halves, which
// what a step takes over grows by a few times.
void check_orthogonalize(Probe& probe, DType dtype) {
  constexpr int steps = 5;
  for (const auto& [R, C] :
       {std::pair<std::int64_t, std::int64_t>{1, 7}, {12, 5}, {16, 16}, {33, 20}}) {
    const Tensor x = probe.normal(dtype, {R, C}, 6);
    const Vector right = orthogonalized(x.values(), R, C, steps);
    const kernels::OrthogonalizeMemory memory(probe.device(), dtype, R * C + 3,
                                              std::min(R, C) + 1);
    kernels::orthogonalize(probe.stream(), x, steps, memory);
    probe.relative(x.values(), right, 64 * 20 * 2 * roundoff(dtype));
  }
}

}  // namespace trireme::selftest
