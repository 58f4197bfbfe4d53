// Numbers of parts of rows of codes, as host kernels decode them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/coded_matrix.hpp"

namespace trireme::kernels::host {

// y [0, end - begin) = columns [begin, end) of row i, rounded to T. `numbers` is
// numbers_of(matrix). For double, float, BFloat16 and Float16.
template <class T>
void decode_part(const CodedMatrix& matrix, const float* numbers, std::int64_t i,
                 std::int64_t begin, std::int64_t end, T* y);

}  // namespace trireme::kernels::host
