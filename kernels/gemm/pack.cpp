// Packing, transposing and converting GEMM operands.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/pack.hpp"

#include <algorithm>
#include <cstring>

#include "base/split.hpp"
#include "kernels/kokkos/parallel.hpp"
#include "kernels/runtime.hpp"

namespace trireme::kernels {
namespace {

// Eight floats. The compiler's vector extension maps it to whatever the machine has.
constexpr std::int64_t lanes = 8;
using Vector = float __attribute__((vector_size(lanes * sizeof(float))));

Vector load(const float* p) {
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

Vector load(const BFloat16* p) {
  using Bits = std::uint16_t __attribute__((vector_size(lanes * 2)));
  using Wide = std::uint32_t __attribute__((vector_size(lanes * 4)));
  Bits bits;
  std::memcpy(&bits, p, sizeof bits);
  const Wide wide = __builtin_convertvector(bits, Wide) << 16;
  Vector v;
  std::memcpy(&v, &wide, sizeof v);
  return v;
}

Vector load(const Float16* p) {
  Vector v;
  for (int i = 0; i < lanes; ++i) v[i] = static_cast<float>(p[i]);
  return v;
}

void store(float* p, Vector v) { std::memcpy(p, &v, sizeof v); }

// out[j][i] = in[i][j] for an 8 x 8 block: pairs, then fours, then halves are exchanged.
template <class T>
void transpose_block(const T* in, std::int64_t in_stride, float* out,
                     std::int64_t out_stride) {
  Vector r[lanes], s[lanes];
  for (int i = 0; i < lanes; ++i) r[i] = load(in + i * in_stride);
  for (int i = 0; i < lanes; i += 2) {
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < lanes; i += 4) {
    r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    r[i + 2] = __builtin_shufflevector(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 3] = __builtin_shufflevector(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    store(out + i * out_stride,
          __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    store(out + (i + 4) * out_stride,
          __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

// out[j][i] = in[i][j] for i in [0, rows), j in [0, columns). Strips of 16 rows: as many
// sequential streams of reads as the prefetchers follow, and whole cache lines written.
template <class T>
void transpose_part(const T* in, std::int64_t in_stride, std::int64_t rows,
                    std::int64_t columns, float* out, std::int64_t out_stride) {
  constexpr std::int64_t strip = 16;
  const std::int64_t whole_columns = columns / lanes * lanes;
  std::int64_t i = 0;
  for (; i + strip <= rows; i += strip) {
    const T* from = in + i * in_stride;
    for (std::int64_t j = 0; j < whole_columns; j += lanes) {
      transpose_block(from + j, in_stride, out + j * out_stride + i, out_stride);
      transpose_block(from + lanes * in_stride + j, in_stride,
                      out + j * out_stride + i + lanes, out_stride);
    }
  }
  const std::int64_t whole_rows = i;
  for (i = 0; i < rows; ++i)
    for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j)
      out[j * out_stride + i] = static_cast<float>(in[i * in_stride + j]);
}

template <class T>
void convert_row(const T* in, std::int64_t n, float* out) {
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store(out + i, load(in + i));
  for (; i < n; ++i) out[i] = static_cast<float>(in[i]);
}

// Panels [begin, end) of b [K, N].
template <class T>
void pack_plain(const Matrix& b, std::int64_t begin, std::int64_t end, float* packed) {
  const auto* data = static_cast<const T*>(b.data);
  const std::int64_t depth = packed_rows(b.rows), n = b.columns;
  const std::int64_t whole = std::min(end, n / panel_columns);
  for (std::int64_t k = 0; k < b.rows; ++k) {
    const T* row = data + k * b.stride;
    float* out = packed + k * panel_columns;
    for (std::int64_t p = begin; p < whole; ++p)
      for (std::int64_t j = 0; j < panel_columns; j += lanes)
        store(out + p * depth * panel_columns + j, load(row + p * panel_columns + j));
    for (std::int64_t p = std::max(begin, whole); p < end; ++p) {
      const std::int64_t width = n - p * panel_columns;
      float* tail = out + p * depth * panel_columns;
      convert_row(row + p * panel_columns, width, tail);
      std::fill(tail + width, tail + panel_columns, 0.0f);
    }
  }
}

// Panels [begin, end) of the transpose of b [N, K].
template <class T>
void pack_transposed(const Matrix& b, std::int64_t begin, std::int64_t end,
                     float* packed) {
  const auto* data = static_cast<const T*>(b.data);
  const std::int64_t depth = packed_rows(b.columns), n = b.rows;
  for (std::int64_t p = begin; p < end; ++p) {
    const std::int64_t width = std::min(panel_columns, n - p * panel_columns);
    float* out = packed + p * depth * panel_columns;
    transpose_part(data + p * panel_columns * b.stride, b.stride, width, b.columns, out,
                   panel_columns);
    if (width == panel_columns) continue;
    for (std::int64_t k = 0; k < b.columns; ++k)
      std::fill(out + k * panel_columns + width, out + (k + 1) * panel_columns, 0.0f);
  }
}

// Rows of the inner dimension beyond K, in panels [begin, end).
void clear_padding(std::int64_t k, std::int64_t begin, std::int64_t end, float* packed) {
  const std::int64_t depth = packed_rows(k);
  for (std::int64_t p = begin; p < end && depth > k; ++p)
    std::fill(packed + (p * depth + k) * panel_columns,
              packed + (p + 1) * depth * panel_columns, 0.0f);
}

// Calls f(T{}) for the types that a packed operand may have.
template <class F>
void visit_operand(DType type, const F& f) {
  switch (type) {
    case DType::f32: return f(float{});
    case DType::bf16: return f(BFloat16{});
    case DType::f16: return f(Float16{});
    default: fail(Status::internal, "{} is not packed to fp32", name_of(type));
  }
}

constexpr std::int64_t row_grain(std::int64_t columns) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(columns, 1));
}

}  // namespace

void pack_panels(const Matrix& b, Transpose transpose, float* packed) {
  const bool swap = transpose == Transpose::yes;
  const std::int64_t k = swap ? b.columns : b.rows;
  const std::int64_t panels = divide_up(swap ? b.rows : b.columns, panel_columns);
  visit_operand(b.dtype, [&](auto element) {
    using T = decltype(element);
    for_ranges("gemm.pack", panels, 1, threads(), [&](auto begin, auto end) {
      if (swap) {
        pack_transposed<T>(b, begin, end, packed);
      } else {
        pack_plain<T>(b, begin, end, packed);
      }
      clear_padding(k, begin, end, packed);
    });
  });
}

void transpose_to_f32(const Matrix& b, float* out, std::int64_t out_stride) {
  visit_operand(b.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* data = static_cast<const T*>(b.data);
    const std::int64_t blocks = divide_up(b.columns, 16);  // a cache line of f32
    for_ranges("gemm.transpose", blocks, row_grain(16 * b.rows), threads(),
               [&](auto begin, auto end) {
                 const std::int64_t first = begin * 16;
                 const std::int64_t count = std::min(end * 16, b.columns) - first;
                 transpose_part(data + first, b.stride, b.rows, count,
                                out + first * out_stride, out_stride);
               });
  });
}

void convert_to_f32(const Matrix& b, float* out, std::int64_t out_stride) {
  visit_operand(b.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* data = static_cast<const T*>(b.data);
    for_ranges("gemm.convert", b.rows, row_grain(b.columns), threads(),
               [&](auto begin, auto end) {
                 for (auto i = begin; i < end; ++i)
                   convert_row(data + i * b.stride, b.columns, out + i * out_stride);
               });
  });
}

void round_from_f32(const Matrix& b, void* out, DType dtype, std::int64_t out_stride) {
  visit_operand(dtype, [&](auto element) {
    using T = decltype(element);
    const auto* data = static_cast<const float*>(b.data);
    auto* rounded = static_cast<T*>(out);
    for_ranges("gemm.round", b.rows, row_grain(b.columns), threads(),
               [&](auto begin, auto end) {
                 for (auto i = begin; i < end; ++i) {
                   const float* in = data + i * b.stride;
                   T* row = rounded + i * out_stride;
#pragma omp simd
                   for (std::int64_t j = 0; j < b.columns; ++j)
                     row[j] = static_cast<T>(in[j]);
                 }
               });
  });
}

}  // namespace trireme::kernels
