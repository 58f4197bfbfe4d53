// GEMM in plain double loops: the oracle of tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/gemm.hpp"

namespace trireme::kernels::reference {

// The result of gemm() as doubles, row by row, before rounding; c is read under
// Accumulate::yes and not written.
std::vector<double> gemm(const TensorView& c, const TensorView& a, Transpose transpose_a,
                         const TensorView& b, Transpose transpose_b,
                         Accumulate accumulate = Accumulate::no,
                         const TensorView& bias = {});

}  // namespace trireme::kernels::reference
