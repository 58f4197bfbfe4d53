// StoredReport: what rounding takes from gradients, moments and weights in a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "base/device.hpp"
#include "base/memory.hpp"
#include "base/recipe.hpp"
#include "base/rounding_losses.hpp"
#include "kernels/rounding.hpp"

namespace trireme::optim {

// By class, of the numbers that were rounded to the type that they are kept or sent in.
class StoredReport {
 public:
  // Off: add() does nothing.
  StoredReport() = default;
  explicit StoredReport(Device device);

  // Counts from nothing, or not at all.
  void begin(Stream& stream, bool count);
  bool counting() const { return counting_; }
  // wide_N is about to be rounded to `type`, divided by `scale`, which counts unless all
  // of them are 0. Nothing for a type that is not narrower than f32. Waits for the
  // stream.
  void add(Stream& stream, TensorClass what, const TensorView& wide_N, DType type,
           float scale);
  // The same with a scale for each block of the tensor; the report has the type's own.
  void add(Stream& stream, TensorClass what, const TensorView& wide_N, DType type,
           const kernels::TensorRun& run, const TensorView& scales_S);
  // Since begin(), on this rank; ends the count. Waits for the device.
  std::array<RoundingLosses, tensor_classes> end(Stream& stream);
  std::size_t bytes() const { return counts_.bytes() + amax_.bytes(); }

 private:
  TensorView counts_of(TensorClass what) const;

  bool counting_ = false;
  std::array<RoundingLosses, tensor_classes> losses_{};
  Buffer counts_;  // f64 [classes, 2]: saturated, flushed
  Buffer amax_;    // f32 [1]
};

}  // namespace trireme::optim
