// Peak rates of GPUs, which MFU is divided by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/dtype.hpp"

namespace trireme::launch {

// Dense FLOP/s of the tensor cores (FP8, fp16, bf16) or of the ordinary units (fp32,
// fp64, where no tensor core gives that precision) of the GPU that calls itself `name`,
// by the vendor's data sheet; 0 for a GPU that is not in the table, or has no such
// products.
double dense_peak(std::string_view name, DType compute);

}  // namespace trireme::launch
