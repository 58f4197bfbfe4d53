// The table of peaks.
// SPDX-License-Identifier: Apache-2.0
#include "launch/device_peak.hpp"

#include <array>

namespace trireme::launch {
namespace {

// In TFLOP/s without sparsity, at boost clock. A name matches that starts with `name`;
// longer names stand first.
struct Peak {
  std::string_view name;
  double fp8, half, fp32, fp64;
  std::string_view source;
};
constexpr std::array peaks = {
    Peak{"Tesla V100-PCIE", 0, 112, 14, 7, "V100 data sheet, 2020"},
    Peak{"Tesla V100", 0, 125, 15.7, 7.8, "V100 data sheet, 2020 (SXM2)"},
    Peak{"NVIDIA A100", 0, 312, 19.5, 19.5, "A100 data sheet, 2022"},
    Peak{"NVIDIA A40", 0, 149.7, 37.4, 0.58, "A40 data sheet, 2021"},
    Peak{"NVIDIA L40S", 733, 362, 91.6, 1.4, "L40S data sheet, 2023"},
    Peak{"NVIDIA H100 PCIe", 1513, 756, 51, 51, "H100 data sheet, 2022"},
    Peak{"NVIDIA H100 NVL", 1671, 835, 60, 60, "H100 NVL data sheet, 2024"},
    Peak{"NVIDIA H100", 1978.9, 989.4, 66.9, 66.9, "H100 data sheet, 2022 (SXM)"},
    Peak{"NVIDIA H200 NVL", 1671, 835, 60, 60, "H200 data sheet, 2024"},
    Peak{"NVIDIA H200", 1978.9, 989.4, 66.9, 66.9, "H200 data sheet, 2024 (SXM)"},
    Peak{"NVIDIA GH200", 1978.9, 989.4, 66.9, 66.9, "GH200 data sheet, 2023"},
    Peak{"NVIDIA B200", 4500, 2250, 75, 37, "DGX B200 data sheet, 2024"},
    Peak{"NVIDIA GB200", 5000, 2500, 80, 40, "GB200 NVL72 data sheet, 2024"},
};

}  // namespace

double dense_peak(std::string_view name, DType compute) {
  for (const Peak& peak : peaks) {
    if (!name.starts_with(peak.name)) continue;
    switch (compute) {
      case DType::f64: return peak.fp64 * 1e12;
      case DType::f32: return peak.fp32 * 1e12;
      case DType::e4m3:
      case DType::e5m2: return peak.fp8 * 1e12;
      default: return peak.half * 1e12;
    }
  }
  return 0;
}

}  // namespace trireme::launch
