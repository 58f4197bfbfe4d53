// Rows of codes: which can be read in registers, and the way for those that cannot.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/coded_matrix.hpp"
#include "kernels/gemm/code_registers.hpp"
#include "kernels/gemm/few_rows_loop.hpp"
#include "kernels/host/code_numbers.hpp"

namespace trireme::kernels::few_rows {

// Whether no scale of a row begins within so many elements from a multiple of them on.
inline bool scales_end_with(const CodedMatrix& m, std::int64_t elements) {
  const std::int64_t width = m.layout.columns, before = m.layout.row(0).before;
  return before + m.shape[1] <= width ||
         (width % elements == 0 && before % elements == 0);
}

// Whether rows of codes can be read in steps, each with one scale.
inline bool in_steps(const CodedMatrix& m) {
  const ScaleLayout& layout = m.layout;
  if (layout.runs && m.shape[0] > 1 && layout.whole_columns % layout.columns != 0)
    return false;
  return scales_end_with(m, step);
}

// Whether products by these factors are numbers as any: 0, or far from the ends of f32's
// range, where instructions that round to bf16 take subnormal numbers for 0.
inline bool are_plain(const float* factors, std::int64_t count, float below = 0x1p80f) {
  unsigned others = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float size = std::abs(factors[i]);
    const bool plain = (size == 0) | ((size > 0x1p-80f) & (size < below));
    others |= plain ? 0u : 1u;
  }
  return others == 0;
}

// Whether none of the codes of E4M3 is NaN.
inline bool are_numbers(const std::uint8_t* codes, std::int64_t count) {
  std::uint8_t largest = 0;  // as wide as a code, so that a register holds many
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, static_cast<std::uint8_t>(codes[i] & 0x7fu));
  return largest != 0x7fu;
}

// Where rows of a matrix have their codes and scales.
struct CodedRows {
  const CodedMatrix& m;
  std::int64_t k = m.shape[1];

  std::int64_t bytes() const { return CodedMatrix::row_bytes(m.type, k); }
  const std::uint8_t* codes_of(std::int64_t row) const {
    return m.codes.data<std::uint8_t>() + row * bytes();
  }
  const float* scales_from(std::int64_t row) const {
    return m.scales.data<float>() + m.layout.row(row).scale;
  }
  // nullptr: all are 0.
  const float* zeros_from(std::int64_t row) const {
    return m.zeros.empty() ? nullptr : m.zeros.data<float>() + m.layout.row(row).scale;
  }
  std::int64_t blocks_of(std::int64_t row) const {
    return (m.layout.row(row).before + k - 1) / m.layout.columns + 1;
  }
  // Whether a row's numbers are as any: its scales as they are wanted, no code NaN.
  bool is_plain(std::int64_t row, Scales wanted) const {
    const std::int64_t blocks = blocks_of(row);
    return are_plain(scales_from(row), blocks, wanted.below) &&
           (!wanted.powers || are_powers(scales_from(row), blocks)) &&
           (m.zeros.empty() || are_plain(zeros_from(row), blocks)) &&
           (m.type != CodeType::e4m3 || are_numbers(codes_of(row), k));
  }
};

// Codes of every type: numbers of some rows at a time in a cache.
template <class T>
struct Decoded {
  const CodedMatrix& m;
  const T* a;
  std::int64_t a_stride;

  template <int rows, class F>
  void run(std::int64_t begin, std::int64_t end, T* room, const F& finish) const {
    const std::int64_t K = m.shape[1];
    const float* const numbers = numbers_of(m);
    for (std::int64_t at = begin; at < end; at += 4) {
      const std::int64_t count = std::min<std::int64_t>(4, end - at);
      for (std::int64_t i = 0; i < count; ++i)
        host::decode_part(m, numbers, at + i, 0, K, room + i * K);
      Rows<T>{a, room, a_stride, K, K}.template run<rows>(
          0, count, [&](std::int64_t row, std::int64_t column, float sum) {
            finish(row, at + column, sum);
          });
    }
  }
};

}  // namespace trireme::kernels::few_rows
