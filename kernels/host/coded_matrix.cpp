// Numbers of matrices of codes on the host.
// SPDX-License-Identifier: Apache-2.0
// Within a block of scales a code of four bits has one number: 16 of them are made for
// each block, rounded as they are wanted, and looked up.
#include "kernels/coded_matrix.hpp"

#include <algorithm>
#include <cstring>
#ifdef __SSSE3__
#include <immintrin.h>
#endif

#include "kernels/host/code_numbers.hpp"
#include "kernels/host/rows.hpp"

namespace trireme::kernels::host {
namespace {

// The nearest number of f16. By way of memory: where the processor converts, GCC 12 takes
// a conversion to _Float16 and back for none, which C++ lets it ("excess precision").
float nearest_f16(float x) {
  const volatile std::uint16_t bits = Float16(x).bits;
  Float16 number;
  number.bits = bits;
  return static_cast<float>(number);
}

// As base/coded_matrix.hpp defines an element.
float number_of(const CodedMatrix& m, float code_number, float scale, float zero) {
  float x = (code_number - zero) * scale;
  if (m.rounding == DType::bf16) x = static_cast<float>(BFloat16(x));
  if (m.rounding == DType::f16) x = nearest_f16(x);
  return x * m.factor;
}

template <class T>
struct Table {
  T numbers[16];
  T operator[](unsigned code) const { return numbers[code]; }
};

// y [0, 2 n) = numbers of n bytes of codes.
template <class T>
void look_up(const Table<T>& table, const std::uint8_t* bytes, std::int64_t n, T* y) {
  std::int64_t i = 0;
#ifdef __SSSE3__
  if constexpr (sizeof(T) == 2) {  // low and high bytes are looked up apart
    alignas(16) std::uint8_t parts[2][16];
    for (unsigned c = 0; c < 16; ++c) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, &table.numbers[c], sizeof bits);
      parts[0][c] = static_cast<std::uint8_t>(bits);
      parts[1][c] = static_cast<std::uint8_t>(bits >> 8);
    }
    const __m128i low = _mm_load_si128(reinterpret_cast<const __m128i*>(parts[0]));
    const __m128i high = _mm_load_si128(reinterpret_cast<const __m128i*>(parts[1]));
    const __m128i mask = _mm_set1_epi8(0xf);
    for (; i + 16 <= n; i += 16) {
      const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i));
      const __m128i first = _mm_and_si128(_mm_srli_epi16(two, 4), mask);
      const __m128i second = _mm_and_si128(two, mask);
      auto* const to = reinterpret_cast<__m128i*>(y + 2 * i);
      for (int half = 0; half < 2; ++half) {
        const __m128i codes = half == 0 ? _mm_unpacklo_epi8(first, second)
                                        : _mm_unpackhi_epi8(first, second);
        const __m128i lows = _mm_shuffle_epi8(low, codes);
        const __m128i highs = _mm_shuffle_epi8(high, codes);
        _mm_storeu_si128(to + 2 * half, _mm_unpacklo_epi8(lows, highs));
        _mm_storeu_si128(to + 2 * half + 1, _mm_unpackhi_epi8(lows, highs));
      }
    }
  }
#endif
  for (; i < n; ++i) {
    y[2 * i] = table[bytes[i] >> 4];
    y[2 * i + 1] = table[bytes[i] & 0xfu];
  }
}

// Columns [begin, end) of a row, all of one block, to y [0, end - begin).
template <class T>
void decode_four_bits(const CodedMatrix& m, const std::uint8_t* row, float scale,
                      float zero, std::int64_t begin, std::int64_t end, T* y) {
  Table<T> table;
  for (unsigned c = 0; c < 16; ++c)
    table.numbers[c] = T(number_of(m, m.book.numbers[c], scale, zero));
  if (begin % 2 != 0) {
    *y++ = table[row[begin / 2] & 0xfu];
    ++begin;
  }
  if (begin >= end) return;
  const std::int64_t pairs = (end - begin) / 2;
  look_up(table, row + begin / 2, pairs, y);
  if ((end - begin) % 2 != 0) y[end - 1 - begin] = table[row[(end - 1) / 2] >> 4];
}

template <class T>
void decode_bytes(const CodedMatrix& m, const float* numbers, const std::uint8_t* row,
                  float scale, float zero, std::int64_t begin, std::int64_t end, T* y) {
  if (m.type == CodeType::int8 && m.rounding == DType::f32) {
    const auto* const codes = reinterpret_cast<const std::int8_t*>(row);
    for (std::int64_t j = begin; j < end; ++j)
      y[j - begin] = T((static_cast<float>(codes[j]) - zero) * scale * m.factor);
    return;
  }
  for (std::int64_t j = begin; j < end; ++j)
    y[j - begin] = T(number_of(m, numbers[row[j]], scale, zero));
}

}  // namespace

template <class T>
void decode_part(const CodedMatrix& m, const float* numbers, std::int64_t i,
                 std::int64_t begin, std::int64_t end, T* y) {
  const auto* const codes =
      m.codes.data<std::uint8_t>() + i * CodedMatrix::row_bytes(m.type, m.shape[1]);
  const float* const scales = m.scales.data<float>();
  const float* const zeros = m.zeros.empty() ? nullptr : m.zeros.data<float>();
  const ScaleLayout::Row row = m.layout.row(i);
  for (std::int64_t j = begin; j < end;) {
    const std::int64_t block = (row.before + j) / m.layout.columns;
    const std::int64_t stop = std::min(end, (block + 1) * m.layout.columns - row.before);
    const float scale = scales[row.scale + block];
    const float zero = zeros == nullptr ? 0.0f : zeros[row.scale + block];
    if (m.type == CodeType::four_bits) {
      decode_four_bits(m, codes, scale, zero, j, stop, y + (j - begin));
    } else {
      decode_bytes(m, numbers, codes, scale, zero, j, stop, y + (j - begin));
    }
    j = stop;
  }
}
#define TRIREME_DECODE_PART(T)                                                 \
  template void decode_part<T>(const CodedMatrix&, const float*, std::int64_t, \
                               std::int64_t, std::int64_t, T*)
TRIREME_DECODE_PART(double);
TRIREME_DECODE_PART(float);
TRIREME_DECODE_PART(BFloat16);
TRIREME_DECODE_PART(Float16);
#undef TRIREME_DECODE_PART

void decode_matrix(Stream& /*stream*/, const CodedMatrix& matrix,
                   const TensorView& y_NK) {
  const float* const numbers = numbers_of(matrix);
  visit_floating(y_NK.dtype(), [&]<class T>(T) {
    const Rows<T> y = rows_of<T>(y_NK);
    for_rows("decode_matrix", matrix.shape[0], matrix.shape[1],
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i)
                 decode_part(matrix, numbers, i, 0, matrix.shape[1], y[i]);
             });
  });
}

}  // namespace trireme::kernels::host
