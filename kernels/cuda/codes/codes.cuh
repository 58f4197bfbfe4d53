// Matrices of codes as kernels of a GPU take them, and the numbers of their codes.
// SPDX-License-Identifier: Apache-2.0
// Every step of base/coded_matrix.hpp is one rounding, in the order of the host.
#pragma once

#include <bit>

#include "base/coded_matrix.hpp"
#include "kernels/cuda/common/types.cuh"

namespace trireme::kernels::cuda {

// x / divisor of what is not negative: a shift where that is a power of two.
struct Quotient {
  std::int64_t divisor = 1;
  int shift = 0;  // -1: it is none

  Quotient() = default;
  explicit Quotient(std::int64_t by)
      : divisor(by),
        shift(std::has_single_bit(static_cast<std::uint64_t>(by))
                  ? std::countr_zero(static_cast<std::uint64_t>(by))
                  : -1) {}
  __device__ std::int64_t operator()(std::int64_t x) const {
    return shift >= 0 ? x >> shift : x / divisor;
  }
};

// A row of codes with the scales of its first block, of which `before` columns lie before
// the row.
struct CodeRow {
  const unsigned char* codes;
  const float* scales;
  const float* zeros;  // nullptr: all are 0
  std::int64_t before;
};

struct CodeMatrix {
  const unsigned char* codes;
  const float* scales;
  const float* zeros;
  std::int64_t N, K, row_bytes;
  ScaleLayout layout;
  Quotient block_rows, block_columns;
  CodeBook book;
  DType rounding;  // before the factor; f32: none
  float factor;
  bool scales_alone;  // no zero points, no rounding and no factor

  // As what is decoded to `to`: where that is the type of the rounding, one is enough.
  CodeMatrix(const CodedMatrix& m, DType to)
      : codes(static_cast<const unsigned char*>(m.codes.raw())),
        scales(m.scales.data<float>()),
        zeros(m.zeros.empty() ? nullptr : m.zeros.data<float>()),
        N(m.shape[0]),
        K(m.shape[1]),
        row_bytes(CodedMatrix::row_bytes(m.type, m.shape[1])),
        layout(m.layout),
        block_rows(m.layout.rows),
        block_columns(m.layout.columns),
        book(m.book),
        rounding(m.rounding == to && m.factor == 1.0f ? DType::f32 : m.rounding),
        factor(m.factor),
        scales_alone(zeros == nullptr && rounding == DType::f32 && factor == 1.0f) {}

  __device__ CodeRow row(std::int64_t i) const {
    std::int64_t first, before = layout.first_column;
    if (layout.runs) {
      const std::int64_t at = before + i * layout.whole_columns;
      first = block_columns(at);
      before = at - first * layout.columns;
    } else {
      first = block_rows(layout.first_row + i) * layout.grid_columns;
    }
    return {codes + i * row_bytes, scales + first,
            zeros == nullptr ? nullptr : zeros + first, before};
  }
};

// The book of a matrix in shared memory: 16 numbers lie in 16 banks, so that lanes that
// look up different codes do not wait for each other. All threads of the block call it,
// at least 16.
__device__ inline const float* shared_book(const CodeMatrix& m) {
  __shared__ float numbers[16];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  if (thread < 16) numbers[thread] = m.book.numbers[thread];
  __syncthreads();
  return numbers;
}

template <CodeType type>
inline constexpr int codes_of_word = type == CodeType::four_bits ? 8 : 4;

// The number of an E4M3 code in the low byte: its bits as those of f32, whose exponent
// has another bias; the product is exact, also of subnormal numbers.
__device__ inline float e4m3_number(unsigned code) {
  const float size = __uint_as_float((code & 0x80u) << 24 | (code & 0x7fu) << 20);
  return (code & 0x7fu) == 0x7fu ? __uint_as_float(0x7fc00000u) : size * 0x1p120f;
}

// The numbers of a word of codes, without scales.
template <CodeType type>
__device__ inline void look_up(const float* book, unsigned word,
                               float (&x)[codes_of_word<type>]) {
  if constexpr (type == CodeType::four_bits) {
    // Bytes that are places in the book: of the high halves, the even elements, and of
    // the low ones.
    const unsigned even = word >> 2 & 0x3c3c3c3cu, odd = word << 2 & 0x3c3c3c3cu;
    const auto* const from = reinterpret_cast<const char*>(book);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned one = 0x4440u + i;
      x[2 * i] = *reinterpret_cast<const float*>(from + __byte_perm(even, 0, one));
      x[2 * i + 1] = *reinterpret_cast<const float*>(from + __byte_perm(odd, 0, one));
    }
  } else if constexpr (type == CodeType::int8) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
      x[i] = static_cast<float>(static_cast<signed char>(word >> (8 * i) & 0xffu));
  } else {
    // As e4m3_number(), of a code in the highest byte: the shift copies the sign.
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const int highest = static_cast<int>(__byte_perm(word, 0, 0x0444u | i << 12));
      x[i] = __int_as_float(highest >> 4 & static_cast<int>(0x87f00000u)) * 0x1p120f;
    }
    if ((((word & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u) == 0) return;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) x[i] = e4m3_number(word >> (8 * i) & 0xffu);
  }
}

// Rounds pairs of numbers to T; nothing where T holds every f32.
template <class T, int n>
__device__ inline void round_all(float (&x)[n]) {
#pragma unroll
  for (int i = 0; i < n; i += 2) {
    float2 pair = make_float2(x[i], x[i + 1]);
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      pair = __bfloat1622float2(__floats2bfloat162_rn(pair.x, pair.y));
    } else if constexpr (std::is_same_v<T, __half>) {
      pair = __half22float2(__floats2half2_rn(pair.x, pair.y));
    }
    x[i] = pair.x;
    x[i + 1] = pair.y;
  }
}

// Numbers of codes with one scale and one zero point become elements in f32. plain: it is
// known that scales_alone holds.
template <bool plain, int n>
__device__ inline void scale_all(const CodeMatrix& m, float scale, float zero,
                                 float (&x)[n]) {
  if constexpr (!plain) {
    if (!m.scales_alone) {
#pragma unroll
      for (int i = 0; i < n; ++i) x[i] = (x[i] - zero) * scale;
      if (m.rounding == DType::bf16) round_all<__nv_bfloat16>(x);
      if (m.rounding == DType::f16) round_all<__half>(x);
#pragma unroll
      for (int i = 0; i < n; ++i) x[i] *= m.factor;
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] *= scale;
}

__device__ inline float zero_of(const CodeRow& row, std::int64_t block) {
  return row.zeros == nullptr ? 0.0f : row.zeros[block];
}

// Element j of a row in f32.
template <CodeType type>
__device__ inline float element_of(const CodeMatrix& m, const float* book,
                                   const CodeRow& row, std::int64_t j) {
  const std::int64_t block = m.block_columns(row.before + j);
  float x[2];  // a pair, of which the first counts
  if constexpr (type == CodeType::four_bits) {
    const unsigned byte = row.codes[j / 2];
    x[0] = book[j % 2 == 0 ? byte >> 4 : byte & 0xfu];
  } else if constexpr (type == CodeType::int8) {
    x[0] = static_cast<float>(static_cast<signed char>(row.codes[j]));
  } else {
    x[0] = e4m3_number(row.codes[j]);
  }
  x[1] = x[0];
  scale_all<false>(m, row.scales[block], zero_of(row, block), x);
  return x[0];
}

// f.operator()<type>() with the type of codes as a constant.
template <class F>
void with_code_type(CodeType type, const F& f) {
  switch (type) {
    case CodeType::four_bits: return f.template operator()<CodeType::four_bits>();
    case CodeType::int8: return f.template operator()<CodeType::int8>();
    case CodeType::e4m3: return f.template operator()<CodeType::e4m3>();
  }
}

}  // namespace trireme::kernels::cuda
