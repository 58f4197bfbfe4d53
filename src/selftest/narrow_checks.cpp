// The optimizer's rules, and numbers in few bits: FP8, blocks, stochastic rounding.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "base/philox.hpp"
#include "base/stochastic_rounding.hpp"
#include "kernels/fp8_blocks.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/quantize.hpp"
#include "kernels/reference/fp8.hpp"
#include "kernels/reference/optimizer.hpp"
#include "kernels/reference/step_decision.hpp"
#include "kernels/rounding.hpp"
#include "kernels/step_decision.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;
using kernels::Fp8Format;
using kernels::Fp8Matrix;
using kernels::Fp8Scaling;
using kernels::Update;
using kernels::UpdateFormula;

constexpr Fp8Format formats[] = {Fp8Format::e4m3, Fp8Format::e5m2};

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

// Numbers of many magnitudes, as the type holds them.
Tensor scattered(Probe& probe, DType dtype, std::int64_t M, std::int64_t K) {
  const Tensor x = probe.normal(dtype, {M, K}, 11, 8);
  Vector values = x.values();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *= std::exp2(static_cast<double>(i % 25) - 12);
  Tensor wide(probe.device(), dtype, {M, K}, 5);
  wide.set(values);
  return wide;
}

// Codes and decoded values of a matrix, given the scale of each element: the bits of both
// are defined.
void check_codes(Probe& probe, DType dtype, const Tensor& x, const Fp8Matrix& matrix,
                 const Codes& codes, const Vector& scales) {
  const std::int64_t M = x.view().dim(0), K = x.view().dim(1);
  const Tensor back = probe.zeros(DType::f32, {M, K});
  kernels::quantize(probe.stream(), x, matrix);
  kernels::dequantize(probe.stream(), matrix, back);
  const Vector values = x.values();
  std::vector<std::uint8_t> right;
  Vector decoded;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto scale = static_cast<float>(scales[i]);
    const double scaled = dtype == DType::f64
                              ? values[i] * (1.0 / double{scale})
                              : double{static_cast<float>(values[i]) * (1.0f / scale)};
    const int code = reference::fp8_nearest(scaled, matrix.format);
    right.push_back(static_cast<std::uint8_t>(code));
    decoded.push_back(
        double{static_cast<float>(reference::fp8_value(code, matrix.format)) * scale});
  }
  probe.equal(codes.values(), right);
  probe.equal(back.values(), decoded);
}

// The scale of each element when blocks have the scales of their largest magnitudes.
Vector block_scales(const Vector& values, std::int64_t K, std::int64_t height,
                    Fp8Format format) {
  const std::int64_t M = static_cast<std::int64_t>(values.size()) / K;
  const std::int64_t across = (K + fp8_block - 1) / fp8_block;
  const auto block = [&](std::int64_t i) {
    return static_cast<std::size_t>(i / K / height * across + i % K / fp8_block);
  };
  std::vector<float> amax(static_cast<std::size_t>((M + height - 1) / height * across));
  for (std::int64_t i = 0; i < M * K; ++i) {
    float& most = amax[block(i)];
    most =
        std::max(most, std::abs(static_cast<float>(values[static_cast<std::size_t>(i)])));
  }
  Vector scales;
  for (std::int64_t i = 0; i < M * K; ++i)
    scales.push_back(double{kernels::fp8_scale(amax[block(i)], format)});
  return scales;
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

void check_quantize(Probe& probe, DType dtype) {
  for (const Fp8Format format : formats)
    for (const auto& [M, K] :
         {std::pair<std::int64_t, std::int64_t>{3, 130}, {130, 256}}) {
      const Tensor x = scattered(probe, dtype, M, K);
      const Vector values = x.values();
      const Codes codes(probe.device(), M, K);
      const Tensor amax = probe.zeros(DType::f32, {1}),
                   scale = probe.zeros(DType::f32, {1});
      kernels::amax(probe.stream(), x, amax);
      const auto most = static_cast<float>(largest(values));
      probe.equal(amax.values(), {double{most}});
      kernels::scale_of_amax(probe.stream(), amax, format, scale);
      const double one = double{kernels::fp8_scale(most, format)};
      probe.equal(scale.values(), {one});
      check_codes(probe, dtype, x, {codes.view(), format, Fp8Scaling::tensor, scale},
                  codes, Vector(values.size(), one));
      for (const auto scaling : {Fp8Scaling::row_128, Fp8Scaling::block_128}) {
        const Tensor scales =
            probe.zeros(DType::f32, kernels::fp8_scales_shape(scaling, M, K));
        check_codes(probe, dtype, x, {codes.view(), format, scaling, scales}, codes,
                    block_scales(values, K,
                                 scaling == Fp8Scaling::row_128 ? 1 : fp8_block, format));
      }
    }
}

void check_transpose(Probe& probe, DType dtype) {
  for (const auto& [M, K] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 130}, {200, 65}}) {
    const Tensor x = probe.normal(dtype, {M, K}, 1, 5), y = probe.zeros(dtype, {K, M});
    kernels::transpose(probe.stream(), x, y);
    const Vector from = x.values();
    Vector turned;
    for (std::int64_t k = 0; k < K; ++k)
      for (std::int64_t m = 0; m < M; ++m)
        turned.push_back(from[static_cast<std::size_t>(m * K + k)]);
    probe.equal(y.values(), turned);
  }
}

// A run of a tensor, of any elements: blocks are those of the whole tensor.
void check_fp8_blocks(Probe& probe, DType dtype) {
  constexpr std::int64_t rows = 150, columns = 300, first = 12345, blocks = 2 * 3;
  constexpr std::int64_t n = rows * columns - first;
  const kernels::TensorRun run{first, columns, 0, 0, columns};
  const Tensor x = probe.normal(dtype, {n}, 3),
               amaxes = probe.zeros(DType::f32, {blocks});
  const Tensor scales = probe.zeros(DType::f32, {blocks}), back = probe.zeros(dtype, {n});
  const Codes codes(probe.device(), 1, n);
  const Vector values = x.values();
  const auto block = [&](std::size_t i) {
    return static_cast<std::size_t>(run.block(static_cast<std::int64_t>(i)));
  };
  Vector most(blocks), of_blocks;
  for (std::size_t i = 0; i < values.size(); ++i)
    most[block(i)] = std::max(most[block(i)], std::abs(values[i]));
  for (const double amax : most)
    of_blocks.push_back(
        double{kernels::fp8_power_scale(static_cast<float>(amax), Fp8Format::e4m3)});
  scales.set(of_blocks);
  const TensorView flat = codes.view().reshape({n});
  kernels::amax_of_blocks(probe.stream(), x, run, amaxes);
  kernels::encode_blocks(probe.stream(), x, run, Fp8Format::e4m3, scales, flat);
  kernels::decode_blocks(probe.stream(), flat, run, Fp8Format::e4m3, scales, back);
  std::vector<std::uint8_t> right;
  Vector decoded;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double scale = of_blocks[block(i)];  // a power of two: no rounding
    const int code = reference::fp8_nearest(values[i] / scale, Fp8Format::e4m3);
    right.push_back(static_cast<std::uint8_t>(code));
    decoded.push_back(reference::fp8_value(code, Fp8Format::e4m3) * scale);
  }
  probe.equal(amaxes.values(), most);
  probe.equal(codes.values(), right);
  probe.equal(back.values(), decoded);
}

// A number and the random bits of its element decide: the result has no freedom.
void check_stochastic_rounding(Probe& probe, DType dtype) {
  constexpr std::int64_t n = 9001;
  constexpr float scale = 0x1p-12f;
  for (const DType type : {DType::bf16, DType::f16, DType::e4m3, DType::e5m2}) {
    const Tensor x = probe.normal(dtype, {n}, 6);
    const Vector before = x.values();
    kernels::round_stochastic(probe.stream(), x, {0, n, 0, 0, n}, type, scale, {5, 6, 7});
    const Random random(5, 6, 7);
    Vector right;
    for (std::size_t i = 0; i < before.size(); ++i)
      right.push_back(
          double{scale * round_stochastic(static_cast<float>(before[i]) / scale,
                                          low_precision_format(type),
                                          static_cast<std::uint32_t>(random.bits(i)))});
    probe.equal(x.values(), right);
  }
}

void check_square_roots(Probe& probe, DType dtype) {
  const Tensor x = probe.normal(dtype, {9001}, 7);
  Vector squares = x.values();
  for (double& v : squares) v *= v;
  kernels::square(probe.stream(), x);
  probe.close(dtype, x.values(), squares, 0);
  Vector roots = x.values();
  for (double& v : roots) v = v > 0 ? std::max(std::sqrt(v), 0x1p-9) : 0;
  kernels::square_root(probe.stream(), x, 0x1p-9f);
  probe.close(dtype, x.values(), roots, 0);
}

}  // namespace trireme::selftest
