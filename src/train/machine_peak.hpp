// The machine's GEMM rate: what MFU is divided by on a CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/dtype.hpp"

namespace trireme::train {

// Best FLOP/s of this process over repeated products C [m, n] = A [m, k] B [n, k]^T in
// `dtype`, for about `seconds`. Allocates and frees its operands.
double gemm_rate(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                 double seconds);

}  // namespace trireme::train
