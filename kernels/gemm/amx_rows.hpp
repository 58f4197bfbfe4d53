// Products of rows by a matrix as it is stored, by AMX: each row alike in any company.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/gemm/bf16_tile.hpp"

namespace trireme::kernels {

// Rows of A [M, K] of bf16, packed once for any number of columns. A column of the
// product is a row of B [N, K], which AMX reads where it lies: products are made
// transposed, so that B is the operand whose lines follow K and only A is packed. A sum
// takes K in one order, whatever M is. Only where has_amx().
class AmxRows {
 public:
  static std::size_t bytes(std::int64_t M, std::int64_t K);

  // Packs into `to`, which has room for bytes() and outlives this.
  AmxRows(const BFloat16* a, std::int64_t stride, std::int64_t M, std::int64_t K,
          void* to, int threads);

  // The products with `columns` rows of B from `b` on; `result` is that of row 0 and the
  // first of these columns. Any thread may, of columns of its own.
  void multiply(const BFloat16* b, std::int64_t stride, std::int64_t columns,
                const TileResult& result) const;

 private:
  std::int64_t rows_, depth_;
  std::uint32_t* packed_;  // [groups of 16 rows][pairs][16]
};

}  // namespace trireme::kernels
