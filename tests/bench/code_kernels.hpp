// Lines of the benchmark of kernels for matrices that are kept as codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "bench/bench.hpp"

namespace trireme::bench {

// Of an [N, K] matrix of a model in each kind of codes: all its numbers, and products of
// one row and of four, which read the codes once.
void add_code_kernels(const Settings& settings, Table& table, const std::string& model,
                      std::int64_t N, std::int64_t K);

}  // namespace trireme::bench
