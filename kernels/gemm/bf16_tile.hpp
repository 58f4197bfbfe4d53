// A tile of a bf16 product: the innermost loop, in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/gemm/ahead.hpp"

namespace trireme::kernels {

constexpr std::int64_t tile_rows = 8;      // a panel of op(A)
constexpr std::int64_t tile_columns = 48;  // a panel of op(B): three registers

// What becomes of the sums of a tile.
struct TileResult {
  void* c = nullptr;         // the tile's first element
  DType dtype = DType::f32;  // or bf16
  std::int64_t stride = 0;
  const float* add = nullptr;  // f32 sums of earlier parts of K, or null
  std::int64_t add_stride = 0;
  const std::uint16_t* bias = nullptr;  // bf16, of the tile's columns, or null
  bool accumulate = false;              // C too is added
};

// What a thread packs next, of either operand.
struct NextOperands {
  Ahead left, right;
};
// How often a tile asks for some of it.
constexpr std::int64_t fetches_of_tile = tile_rows;

// Sums, over `pairs` pairs of K, of a panel of A (tile_rows wide) times a panel of B, as
// wide as `columns` rounded up to 16; the first `rows` x `columns` go to the result:
// added up in f32 and rounded once. What is packed next is asked for meanwhile. Only
// where has_bf16_products(), whose instruction takes subnormal numbers for 0.
void multiply_tile(const std::uint32_t* a, const std::uint32_t* b, std::int64_t pairs,
                   std::int64_t rows, std::int64_t columns, const TileResult& result,
                   NextOperands& next);

}  // namespace trireme::kernels
