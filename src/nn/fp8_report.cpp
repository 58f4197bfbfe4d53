// Fp8Report: counting beside quantization.
// SPDX-License-Identifier: Apache-2.0
#include "nn/fp8_report.hpp"

#include "base/device_memory.hpp"
#include "kernels/quantize.hpp"

namespace trireme::nn {

Fp8Report::Fp8Report(Device device)
    : counts_(device, DType::f64, {classes, 2}, MemoryClass::workspace, "FP8 losses"),
      scales_(device, DType::f32, {classes}, MemoryClass::workspace, "FP8 scales seen") {}

void Fp8Report::clear(Stream& stream) {
  elements_ = {};
  kernels::fill(stream, counts_.view(), 0.0);
  kernels::fill(stream, scales_.view(), 0.0);
}

void Fp8Report::add(Stream& stream, Operand what, const TensorView& values,
                    const kernels::Fp8Matrix& codes) {
  const auto row = static_cast<std::int64_t>(what);
  elements_[static_cast<std::size_t>(row)] += static_cast<double>(values.elements());
  kernels::count_losses(stream, values, codes, counts_.view().rows(row, 1).reshape({2}),
                        scales_.view().rows(row, 1));
}

std::array<RoundingLosses, Fp8Report::classes> Fp8Report::read(Stream& stream) const {
  std::array<double, 2 * classes> counts{};
  std::array<float, classes> scales{};
  copy_bytes(stream, counts_.view(),
             TensorView(counts.data(), DType::f64, counts_.view().shape()));
  copy_bytes(stream, scales_.view(),
             TensorView(scales.data(), DType::f32, scales_.view().shape()));
  stream.synchronize();
  std::array<RoundingLosses, classes> losses;
  for (std::size_t i = 0; i < classes; ++i)
    losses[i] = {elements_[i], counts[2 * i], counts[2 * i + 1], double{scales[i]}};
  return losses;
}

}  // namespace trireme::nn
