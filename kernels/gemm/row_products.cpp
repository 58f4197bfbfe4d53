// Dot products of rows of A with rows of B, in tiles that fill the registers.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/row_products.hpp"

#include <algorithm>

#include "base/split.hpp"
#include "kernels/gemm/amx_rows.hpp"
#include "kernels/gemm/amx_tile.hpp"
#include "kernels/gemm/finish.hpp"
#include "kernels/gemm/row_panels.hpp"
#include "kernels/gemm/row_terms.hpp"
#include "kernels/gemm/workspace.hpp"
#include "kernels/host/code_numbers.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

constexpr int tile_rows = simd::registers == 32 ? 4 : 2, tile_columns = 4;

template <class T>
struct RowProduct {
  using A = Accumulator<T>;
  const RowPanels<T>& panels;  // of the first rows of A
  const T* a;
  const T* b;
  std::int64_t a_stride, b_stride, k;

  std::int64_t whole() const { return k / RowTerms<T>::step * RowTerms<T>::step; }

  // What K has beyond whole registers. One function for all: where it is inlined, a
  // compiler may round a product before it is added, or not.
  [[gnu::noinline]] A add_rest(A sum, const T* x, const T* y) const {
    for (std::int64_t i = whole(); i < k; ++i) sum += load(x[i]) * load(y[i]);
    return sum;
  }

  // sums[i] of `count` registers = the sum over the lanes of each, in ascending order.
  static void sum_registers(simd::Vector<A>* registers, int count, A* sums) {
    constexpr int lanes = simd::lanes<A>;
    for (int first = 0; first < count; first += lanes) {
      simd::Vector<A> tile[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        tile[i] = first + i < count ? registers[first + i] : simd::Vector<A>{};
      simd::exchange_all<A>(tile);
      simd::Vector<A> all = tile[0];
#pragma GCC unroll 16
      for (int i = 1; i < lanes; ++i) all += tile[i];
      for (int i = 0; i < lanes && first + i < count; ++i) sums[first + i] = all[i];
    }
  }

  template <int rows, int columns>
  [[gnu::noinline]] void dot(std::int64_t row, std::int64_t column, A* sums) const {
    simd::Vector<A> partial[rows * columns];
#pragma GCC unroll 16
    for (int i = 0; i < rows * columns; ++i) partial[i] = simd::Vector<A>{};
    const std::int64_t whole = this->whole();
    const T* left = a + row * a_stride;
    const T* right = b + column * b_stride;
    for (std::int64_t i = 0; i < whole; i += RowTerms<T>::step) {
      typename RowTerms<T>::Loaded y[columns];
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j)
        y[j] = RowTerms<T>::read(right + j * b_stride + i);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const auto x = RowTerms<T>::read(left + r * a_stride + i);
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j)
          partial[r * columns + j] = RowTerms<T>::add(partial[r * columns + j], x, y[j]);
      }
    }
    sum_registers(partial, rows * columns, sums);
    if (whole == k) return;
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < columns; ++j)
        sums[r * columns + j] =
            add_rest(sums[r * columns + j], left + r * a_stride, right + j * b_stride);
  }

  template <int rows, class Finish>
  void run_row(std::int64_t row, std::int64_t begin, std::int64_t end,
               const Finish& finish) const {
    A sums[tile_rows * tile_columns];
    std::int64_t column = begin;
    for (; column + tile_columns <= end; column += tile_columns) {
      dot<rows, tile_columns>(row, column, sums);
      for (int r = 0; r < rows; ++r)
        for (int j = 0; j < tile_columns; ++j)
          finish(row + r, column + j, sums[r * tile_columns + j]);
    }
    for (; column < end; ++column) {
      dot<rows, 1>(row, column, sums);
      for (int r = 0; r < rows; ++r) finish(row + r, column, sums[r]);
    }
  }

  // At most block_columns columns.
  template <class Finish>
  void run_panel(std::int64_t panel, std::int64_t begin, std::int64_t end,
                 const Finish& finish) const {
    alignas(64) A sums[RowPanels<T>::most_rows * block_columns];
    panels.multiply(panel, b + begin * b_stride, b_stride, end - begin, sums);
    const Range rows = panels.rows_of_panel(panel);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      A* const of_row = sums + (row - rows.begin) * block_columns;
      for (std::int64_t j = 0; j < end - begin && whole() < k; ++j)
        of_row[j] = add_rest(of_row[j], a + row * a_stride, b + (begin + j) * b_stride);
      for (std::int64_t j = 0; j < end - begin; ++j) finish(row, begin + j, of_row[j]);
    }
  }

  template <class Finish>
  void run(std::int64_t m, std::int64_t begin, std::int64_t end,
           const Finish& finish) const {
    for (std::int64_t at = begin; at < end; at += block_columns) {
      const std::int64_t stop = std::min(at + block_columns, end);
      std::int64_t row = 0;
      for (std::int64_t panel = 0; panel < panels.panels(); ++panel) {
        run_panel(panel, at, stop, finish);
        row = panels.rows_of_panel(panel).end;
      }
      for (; row + tile_rows <= m; row += tile_rows)
        run_row<tile_rows>(row, at, stop, finish);
      for (; row < m; ++row) run_row<1>(row, at, stop, finish);
    }
  }
};

template <class T>
void transpose_rows(const TensorView& b_KN, T* to) {
  const std::int64_t K = b_KN.dim(0), N = b_KN.dim(1), stride = b_KN.stride(0);
  const T* from = b_KN.data<T>();
  for_ranges("gemm.transpose", N, std::max<std::int64_t>(1, (1 << 15) / K), threads(),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t k = 0; k < K; ++k)
                 for (std::int64_t n = begin; n < end; ++n)
                   to[n * K + k] = from[k * stride + n];
             });
}

// The rows of A that are packed, of all threads.
template <class T>
RowPanels<T> panels_of(const TensorView& a) {
  const std::int64_t K = a.dim(1), rows = RowPanels<T>::rows_of(a.dim(0));
  const std::size_t bytes = RowPanels<T>::bytes(rows, K);
  return {a.data<T>(),
          a.stride(0),
          rows,
          K,
          bytes > 0 ? workspace(WorkspaceUse::left, bytes) : nullptr,
          threads()};
}

// Columns that are worth a thread.
std::int64_t grain(std::int64_t M, std::int64_t K) {
  constexpr std::int64_t worth = 1 << 18;  // products of elements
  return std::max<std::int64_t>(4, worth / (K * M));
}

// By AMX where the processor has it: f(rows, result), with A packed.
template <class F>
void with_amx_rows(const TensorView& c, const TensorView& a, Accumulate accumulate,
                   const TensorView& bias, const F& f) {
  const std::int64_t M = a.dim(0), K = a.dim(1);
  const AmxRows rows(a.data<BFloat16>(), a.stride(0), M, K,
                     workspace(WorkspaceUse::left, AmxRows::bytes(M, K)), threads());
  f(rows, TileResult{.c = c.raw(),
                     .dtype = c.dtype(),
                     .stride = c.stride(0),
                     .bias = bias.empty() ? nullptr
                                          : static_cast<const std::uint16_t*>(bias.raw()),
                     .accumulate = accumulate == Accumulate::yes});
}

// The result of the columns from `column` on.
TileResult from_column(TileResult result, std::int64_t column) {
  result.c = static_cast<char*>(result.c) +
             static_cast<std::size_t>(column) * size_of(result.dtype);
  if (result.bias != nullptr) result.bias += column;
  return result;
}

template <class T, class C>
void multiply(const TensorView& c, const TensorView& a, const TensorView& b,
              Transpose transpose_b, Accumulate accumulate, const TensorView& bias) {
  const std::int64_t M = a.dim(0), K = a.dim(1), N = c.dim(1);
  const T* right = b.data<T>();
  std::int64_t right_stride = b.stride(0);
  if (transpose_b == Transpose::no) {
    auto* turned = static_cast<T*>(
        workspace(WorkspaceUse::right, static_cast<std::size_t>(N * K) * sizeof(T)));
    transpose_rows<T>(b, turned);
    right = turned;
    right_stride = K;
  }
  if constexpr (std::is_same_v<T, BFloat16>)
    if (has_amx())
      return with_amx_rows(c, a, accumulate, bias, [&](const auto& rows, auto result) {
        for_ranges("gemm.rows", N, divide_up(grain(M, K), amx_columns) * amx_columns,
                   threads(), [&](std::int64_t begin, std::int64_t end) {
                     rows.multiply(right + begin * right_stride, right_stride,
                                   end - begin, from_column(result, begin));
                   });
      });
  const auto panels = panels_of<T>(a);
  const RowProduct<T> product{panels, a.data<T>(), right, a.stride(0), right_stride, K};
  const Finish<T, C> finish(c, accumulate, bias);
  for_ranges(
      "gemm.rows", N, grain(M, K), threads(),
      [&](std::int64_t begin, std::int64_t end) { product.run(M, begin, end, finish); });
}

// The same with a block of rows of codes at a time as numbers in a cache.
template <class T, class C>
void multiply_codes(const TensorView& c, const TensorView& a, const CodedMatrix& b,
                    const TensorView& bias) {
  const std::int64_t M = a.dim(0), K = a.dim(1), N = c.dim(1);
  const float* const numbers = numbers_of(b);
  const Finish<T, C> finish(c, Accumulate::no, bias);
  const std::int64_t parts = std::clamp<std::int64_t>(N / grain(M, K), 1, 4 * threads());
  auto* const room = static_cast<T*>(
      workspace(WorkspaceUse::right,
                static_cast<std::size_t>(parts * block_columns * K) * sizeof(T)));
  // f(block, first, count): columns as numbers.
  const auto for_blocks = [&](const auto& f) {
    run_chunks("gemm.rows of codes", parts, ChunkBody([&](std::int64_t part) {
                 const Range mine = split_range(N, parts, part);
                 T* const block = room + part * block_columns * K;
                 for (std::int64_t at = mine.begin; at < mine.end; at += block_columns) {
                   const std::int64_t count = std::min(block_columns, mine.end - at);
                   for (std::int64_t i = 0; i < count; ++i)
                     host::decode_part(b, numbers, at + i, 0, K, block + i * K);
                   f(block, at, count);
                 }
               }));
  };
  if constexpr (std::is_same_v<T, BFloat16>)
    if (has_amx())
      return with_amx_rows(
          c, a, Accumulate::no, bias, [&](const auto& rows, auto result) {
            for_blocks([&](const T* block, std::int64_t at, std::int64_t count) {
              rows.multiply(block, K, count, from_column(result, at));
            });
          });
  const auto panels = panels_of<T>(a);
  for_blocks([&](const T* block, std::int64_t at, std::int64_t count) {
    const RowProduct<T> product{panels, a.data<T>(), block, a.stride(0), K, K};
    product.run(M, 0, count,
                [&](std::int64_t row, std::int64_t column, Accumulator<T> sum) {
                  finish(row, at + column, sum);
                });
  });
}

}  // namespace

void gemm_by_rows(const TensorView& c, const TensorView& a, const TensorView& b,
                  Transpose transpose_b, Accumulate accumulate, const TensorView& bias) {
  visit_floating(a.dtype(), [&](auto element) {
    using T = decltype(element);
    if (c.dtype() == dtype_of<Accumulator<T>>)
      multiply<T, Accumulator<T>>(c, a, b, transpose_b, accumulate, bias);
    else
      multiply<T, T>(c, a, b, transpose_b, accumulate, bias);
  });
}

void gemm_by_rows(const TensorView& c, const TensorView& a, const CodedMatrix& b_NK,
                  const TensorView& bias) {
  visit_floating(a.dtype(), [&](auto element) {
    using T = decltype(element);
    if (c.dtype() == dtype_of<Accumulator<T>>)
      multiply_codes<T, Accumulator<T>>(c, a, b_NK, bias);
    else
      multiply_codes<T, T>(c, a, b_NK, bias);
  });
}

}  // namespace trireme::kernels
