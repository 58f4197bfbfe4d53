// The GEMM rate of a device: what MFU is divided by on a CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/dtype.hpp"

namespace trireme::launch {

struct GemmRate {
  double best = 0;       // FLOP/s of the fastest product
  double sustained = 0;  // of all of them together
};

// Repeats C [m, n] = A [m, k] B [n, k]^T in `dtype`, of random numbers, on this process's
// device for about `seconds`, after one product that is not counted. Allocates and frees
// its operands.
GemmRate gemm_rate(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                   double seconds, Device device = Device::host());

}  // namespace trireme::launch
