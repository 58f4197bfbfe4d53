// Table lookup and its gradient in double: the oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::kernels::reference {

// Row index_T[t] - first of the table [R, D] for every t; zeros outside the table.
std::vector<double> embedding(std::span<const std::int32_t> index_T,
                              std::span<const double> table_RD, std::size_t D,
                              std::int64_t first);

// The gradient of <dy, embedding(...)> with respect to the table.
std::vector<double> embedding_backward(std::span<const double> dy_TD,
                                       std::span<const std::int32_t> index_T,
                                       std::size_t R, std::size_t D, std::int64_t first);

}  // namespace trireme::kernels::reference
