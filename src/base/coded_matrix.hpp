// CodedMatrix: a matrix that is kept as codes and scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "base/code_book.hpp"
#include "base/memory.hpp"

namespace trireme {

// What a byte, or half a byte, of the codes is: a code of a book (the first element of
// two in the high bits), a signed integer, or a number E4M3.
enum class CodeType : std::uint8_t { four_bits, int8, e4m3 };

// Where the scales of a matrix lie. Those of a grid: one for each `rows` x `columns`
// elements of the whole matrix, of which this may be a box. Those of runs: one for so
// many `columns` of all elements in order, across the ends of rows.
struct ScaleLayout {
  std::int64_t rows = 1, columns = 1;
  bool runs = false;
  // The box's first element in its first block of scales, and scales of a row of blocks.
  std::int64_t first_row = 0, first_column = 0, grid_columns = 1;
  std::int64_t whole_columns = 0;  // of runs: of the whole matrix

  // The scale of the first element of a row, and how many columns of its block lie before
  // it: the scale of column j is at scale + (before + j) / columns.
  struct Row {
    std::int64_t scale, before;
  };
  Row row(std::int64_t i) const {
    if (!runs) return {(first_row + i) / rows * grid_columns, first_column};
    const std::int64_t at = first_column + i * whole_columns;
    return {at / columns, at % columns};
  }
  // How many scales a box of these extents has.
  std::int64_t count(std::int64_t height, std::int64_t width) const;
};

// An element is the number of its code, less the zero point of its block, times the scale
// of its block, rounded to `rounding` (f32, bf16 or f16), and times `factor` in f32.
struct CodedMatrix {
  CodeType type = CodeType::four_bits;
  Shape shape;         // [N, K]
  CodeBook book{};     // of four_bits
  TensorView codes;    // u8 [N, K], or [N, (K + 1) / 2] of four_bits
  TensorView scales;   // f32
  TensorView zeros;    // f32, as many; empty: all are 0
  ScaleLayout layout;  // of both
  DType rounding = DType::f32;
  float factor = 1.0f;

  static std::int64_t row_bytes(CodeType type, std::int64_t columns) {
    return type == CodeType::four_bits ? (columns + 1) / 2 : columns;
  }
  std::size_t bytes() const {
    return codes.bytes() + scales.bytes() + (zeros.empty() ? 0 : zeros.bytes());
  }
};

// A coded matrix with the memory that it lies in.
struct OwnedCodes {
  CodedMatrix matrix;
  Buffer codes, scales, zeros;

  // Memory for a matrix of this type, shape and layout, not filled.
  OwnedCodes(Device device, CodeType type, const Shape& shape, const ScaleLayout& layout,
             bool has_zeros, MemoryClass of = MemoryClass::weights);
  OwnedCodes(OwnedCodes&&) = default;
  OwnedCodes& operator=(OwnedCodes&&) = default;
};

// The same matrix in memory of `device`. On a GPU it is there for all that is queued
// later on a stream of the device.
OwnedCodes moved_to(Device device, OwnedCodes codes,
                    MemoryClass of = MemoryClass::weights);

// Codes of a box of a matrix, and where it begins in that.
struct PlacedCodes {
  Shape begin;
  OwnedCodes codes;
};

// Row i as f32, on the host.
void decode_row(const CodedMatrix& matrix, std::int64_t i, float* numbers);
// The same of its first `count` columns from `begin` on.
void decode_columns(const CodedMatrix& matrix, std::int64_t i, std::int64_t begin,
                    std::int64_t count, float* numbers);

// The code of E4M3 nearest to a number, ties to even; what is larger than 448 is 448, as
// the type has no infinity.
std::uint8_t nearest_e4m3(float x);

// The numbers of all codes of a type; of four_bits the book's.
const float* numbers_of(const CodedMatrix& matrix);

}  // namespace trireme
