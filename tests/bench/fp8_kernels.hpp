// Lines of the benchmark of kernels for FP8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "bench/bench.hpp"

namespace trireme::bench {

// Of [T, K] activations: the largest magnitude, codes in one order and in both; and their
// product with an [N, K] matrix, with each kind of scales.
void add_fp8_kernels(const Settings& settings, Table& table, const std::string& model,
                     std::int64_t T, std::int64_t N, std::int64_t K);

}  // namespace trireme::bench
