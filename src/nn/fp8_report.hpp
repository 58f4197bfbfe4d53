// Fp8Report: what the quantization of linear layers' operands loses in a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "base/rounding_losses.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

// Of the codes that were made in a step: those that forward and backward ask for first,
// not copies of them in another order.
class Fp8Report {
 public:
  static constexpr std::size_t classes = 3;  // x, W and dy: see Operand

  explicit Fp8Report(Device device);
  // Starts again from nothing.
  void clear(Stream& stream);
  // `codes` is what quantize() made of `values` [M, K].
  void add(Stream& stream, Operand what, const TensorView& values,
           const kernels::Fp8Matrix& codes);
  // Since clear(), on this rank. Waits for the device.
  std::array<RoundingLosses, classes> read(Stream& stream) const;
  std::size_t bytes() const { return counts_.bytes() + scales_.bytes(); }

 private:
  std::array<double, classes> elements_{};
  Buffer counts_;  // f64 [3, 2]: saturated, flushed
  Buffer scales_;  // f32 [3]
};

}  // namespace trireme::nn
