// LossScaler: the factor of the loss that keeps the gradients of fp16 in range.
// SPDX-License-Identifier: Apache-2.0
// Source: Micikevicius et al., "Mixed precision training", 2018, section 3.2.
#pragma once

#include <array>
#include <cstdint>

#include "base/tensor_view.hpp"

namespace trireme::optim {

// The names are those of PyTorch's GradScaler, whose scale has no floor.
struct LossScaling {
  double initial_scale = 65536;
  std::int64_t growth_interval = 2000;  // steps without overflow after which it doubles
  double floor = 1;                     // it never falls below
};

// Its state is a tensor [3] f32 (scale, steps since it changed, steps skipped so far),
// the same on every rank. Powers of two times initial_scale, and counts below 2^24: all
// exact.
class LossScaler {
 public:
  explicit LossScaler(const LossScaling& settings);
  LossScaler(const LossScaler&) = delete;
  LossScaler& operator=(const LossScaler&) = delete;

  double scale() const { return values_[0]; }
  // Steps that overflowed, which neither the optimizer nor its schedule has seen.
  std::int64_t skipped() const { return static_cast<std::int64_t>(values_[2]); }

  // After a step without overflow.
  void succeeded();
  // After an overflow, which is no update: halves the scale. False: it was at the floor.
  bool overflowed();

  TensorView state() { return {values_.data(), DType::f32, {3}}; }

 private:
  LossScaling settings_;
  std::array<float, 3> values_{};
};

// Steps whose update was refused (health.nan, health.spike). Its state is a tensor [1]
// f32, the same on every rank: a count below 2^24, so exact.
class RefusedSteps {
 public:
  std::int64_t count() const { return static_cast<std::int64_t>(count_[0]); }
  void add() { ++count_[0]; }
  TensorView state() { return {count_.data(), DType::f32, {1}}; }

 private:
  std::array<float, 1> count_{};
};

}  // namespace trireme::optim
