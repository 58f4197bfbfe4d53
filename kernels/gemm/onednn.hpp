// Matrix products of f32, without bias, by oneDNN; primitives are made once for a shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/product.hpp"

namespace trireme::kernels {

// True if oneDNN has its blocked kernel ("brgemm") for this product.
bool is_fast(const Product& product);

// Runs it as a primitive. Throws Error(transport) when oneDNN refuses.
void multiply_by_primitive(const Product& product, const float* a, const float* b,
                           float* c);

// Runs it by oneDNN's sgemm, which packs operands as it goes and takes any strides and
// transposes at the same speed.
void multiply_f32(const Product& product, const float* a, const float* b, float* c);

}  // namespace trireme::kernels
