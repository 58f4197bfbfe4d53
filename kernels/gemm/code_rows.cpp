// Dot products of a few rows of A with rows of codes, which become numbers in registers.
// SPDX-License-Identifier: Apache-2.0
// Lane by lane the sums are those of numbers (few_rows_loop.hpp). Where a register holds
// other places of a row than that of numbers does, A is laid out alike, and the sums go
// to their lanes at the end.
#include "kernels/gemm/code_rows.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/split.hpp"
#include "kernels/gemm/byte_tables.hpp"
#include "kernels/gemm/code_pairs.hpp"
#include "kernels/gemm/code_registers.hpp"
#include "kernels/gemm/code_tables.hpp"
#include "kernels/gemm/coded_rows.hpp"
#include "kernels/gemm/finish.hpp"
#include "kernels/gemm/workspace.hpp"
#include "kernels/host/code_numbers.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

using few_rows::CodedRows, few_rows::Decoded, few_rows::Floats, few_rows::TwoRegisters,
    few_rows::in_steps, few_rows::lanes, few_rows::step;

// Rows of codes whose sums are made together, so that these and the tables of four bits
// stay in registers. Two of four bits have sums enough that none waits for another.
template <class Code>
constexpr int most_columns(int rows) {
  if (simd::registers != 32) return rows == 1 ? 2 : 1;
  return rows <= 2 && !(rows == 1 && Code::codes_of_byte == 2) ? 4 : 2;
}

// Where a pair of registers of Code holds an element of a step.
template <class Code>
constexpr int place_of(int element) {
  int place = 0;
  while (Code::element(place) != element) ++place;
  return place;
}

// A pair of registers of sums with each sum in the lane that it has in few_rows::Rows.
template <class T, class Code, std::size_t... I>
[[gnu::always_inline]] inline TwoRegisters in_place(TwoRegisters x,
                                                    std::index_sequence<I...>) {
  constexpr auto from = [](std::size_t place) {
    return place_of<Code>(few_rows::usual_element<T>(static_cast<int>(place)));
  };
  return {__builtin_shufflevector(x.first, x.second, from(I)...),
          __builtin_shufflevector(x.first, x.second, from(I + lanes)...)};
}

template <class T, class Code>
struct InRegisters {
  const CodedMatrix& m;
  const T* a;
  std::int64_t a_stride;
  const float* x;  // A in f32, as registers of codes lie: [rows, whole]
  std::int64_t k = m.shape[1], whole = k / step * step;

  CodedRows coded{m};

  // How far ahead codes are asked for: of several rows the processor does not see where
  // they go. Two rows of four bits are often a page: whole pages ahead took longer.
  std::int64_t bytes_ahead(int columns) const {
    return 2 * columns * coded.bytes() + (Code::codes_of_byte == 2 ? 1984 : 0);
  }

  // sums[row][j] of rows `column` + j of codes.
  template <class Reader, int rows, int columns>
  [[gnu::noinline]] void dot(std::int64_t column, float (&sums)[most_few_rows][4]) const {
    Floats partial[rows][columns][2] = {};
    const std::int64_t width = m.layout.columns, bytes = coded.bytes();
    const std::int64_t ahead = bytes_ahead(columns);
    const std::int64_t before = m.layout.row(column).before;
    const std::uint8_t* const codes = coded.codes_of(column);
    const float* scales[columns];
    const float* zeros[columns];
    for (int j = 0; j < columns; ++j) {
      scales[j] = coded.scales_from(column + j);
      zeros[j] = coded.zeros_from(column + j);
    }
    const typename Reader::Shared shared(m);
    std::int64_t block = before / width;
    for (std::int64_t i = 0; i < whole; ++block) {
      const std::int64_t stop = std::min(whole, (block + 1) * width - before);
      Reader code[columns];
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j)
        code[j].set(shared, scales[j][block],
                    zeros[j] == nullptr ? 0.0f : zeros[j][block]);
      const auto add = [&]<int steps>() __attribute__((always_inline)) {
        TwoRegisters right[columns][steps];
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) {
          __builtin_prefetch(codes + j * bytes + i / Reader::codes_of_byte + ahead);
          code[j].template load<steps>(shared, codes + j * bytes, i, right[j]);
        }
#pragma GCC unroll 2
        for (int s = 0; s < steps; ++s, i += step)
#pragma GCC unroll 4
          for (int row = 0; row < rows; ++row) {
            const TwoRegisters left = few_rows::load_two(x + row * whole + i);
#pragma GCC unroll 4
            for (int j = 0; j < columns; ++j)
              few_rows::add_product(partial[row][j], left, right[j][s]);
          }
      };
      if constexpr (Reader::most_steps > 1)
        while (i + Reader::most_steps * step <= stop)
          add.template operator()<Reader::most_steps>();
      while (i < stop) add.template operator()<1>();
    }
    constexpr auto all = std::make_index_sequence<static_cast<std::size_t>(lanes)>();
    const float* const numbers = numbers_of(m);
    for (int j = 0; j < columns; ++j) {
      T rest[step] = {};
      if (whole < k) host::decode_part(m, numbers, column + j, whole, k, rest);
      for (int row = 0; row < rows; ++row)
        sums[row][j] = few_rows::sum_of(
            in_place<T, Reader>({partial[row][j][0], partial[row][j][1]}, all),
            a + row * a_stride + whole, rest, k - whole);
    }
  }

  template <int rows, int columns, class F>
  void run_tile(std::int64_t column, T* room, const F& finish) const {
    for (int j = 0; j < columns; ++j)
      if (!coded.is_plain(column + j, Code::scales))
        return Decoded<T>{m, a, a_stride}.template run<rows>(column, column + columns,
                                                             room, finish);
    float sums[most_few_rows][4];
    using Faster = typename Code::WithoutTies;
    if constexpr (std::is_void_v<Faster>) {
      dot<Code, rows, columns>(column, sums);
    } else {
      bool ties = false;
      for (int j = 0; j < columns; ++j)
        ties = ties || Code::may_tie(m, coded.scales_from(column + j),
                                     coded.blocks_of(column + j));
      if (ties)
        dot<Code, rows, columns>(column, sums);
      else
        dot<Faster, rows, columns>(column, sums);
    }
    for (int j = 0; j < columns; ++j)
      for (int row = 0; row < rows; ++row) finish(row, column + j, sums[row][j]);
  }

  template <int rows, class F>
  void run(std::int64_t begin, std::int64_t end, T* room, const F& finish) const {
    constexpr int columns = most_columns<Code>(rows);
    std::int64_t column = begin;
    for (; column + columns <= end; column += columns)
      run_tile<rows, columns>(column, room, finish);
    for (; column < end; ++column) run_tile<rows, 1>(column, room, finish);
  }
};

// Row by row, the whole steps of A as X, in the order of the registers of codes.
template <class T, class Code, class X, std::int64_t step>
const X* laid_out(const TensorView& a) {
  const std::int64_t whole = a.dim(1) / step * step;
  auto* const x = static_cast<X*>(workspace(
      WorkspaceUse::left, static_cast<std::size_t>(a.dim(0) * whole) * sizeof(X)));
  for (std::int64_t row = 0; row < a.dim(0); ++row) {
    const T* const from = a.data<T>() + row * a.stride(0);
    X* const to = x + row * whole;
    for (std::int64_t i = 0; i < whole; i += step)
#pragma GCC unroll 32
      for (int place = 0; place < step; ++place) {
        if constexpr (std::is_same_v<X, T>)
          to[i + place] = from[i + Code::element(place)];
        else
          to[i + place] = load(from[i + Code::element(place)]);
      }
  }
  return x;
}

template <class T, class C, class Product>
void share(const TensorView& c, const CodedMatrix& m, std::int64_t rows,
           const TensorView& bias, const Product& product) {
  constexpr std::int64_t elements = 1 << 16;  // of B, worth a thread's work
  const std::int64_t N = m.shape[0], K = m.shape[1];
  const Finish<T, C> finish(c, Accumulate::no, bias);
  const std::int64_t parts = std::clamp<std::int64_t>(
      N / std::max<std::int64_t>(1, elements / K), 1, 4 * threads());
  auto* const room = static_cast<T*>(workspace(
      WorkspaceUse::right, static_cast<std::size_t>(parts * 4 * K) * sizeof(T)));
  run_chunks("gemm.codes", parts, ChunkBody([&](std::int64_t part) {
               const Range mine = split_range(N, parts, part);
               few_rows::with_rows(rows, [&]<int count>() {
                 product.template run<count>(mine.begin, mine.end, room + part * 4 * K,
                                             finish);
               });
             }));
}

// By the first of Codes that takes the matrix; false: none does.
template <class T, class C>
struct Multiply {
  const TensorView &c, &a;
  const CodedMatrix& m;
  const TensorView& bias;

  template <class Code>
  bool by() const {
    if (!in_steps(m) || !Code::takes(m)) return false;
    const float* const x = laid_out<T, Code, float, step>(a);
    share<T, C>(c, m, a.dim(0), bias,
                InRegisters<T, Code>{m, a.data<T>(), a.stride(0), x});
    return true;
  }
#if defined(TRIREME_PAIRS)
  template <class Code, int scales>
  bool in_pairs() const {
    if (!Code::takes(m)) return false;
    const BFloat16* x = a.data<BFloat16>();
    if constexpr (!Code::in_order)
      x = laid_out<BFloat16, Code, BFloat16, few_rows::Pairs::step>(a);
    share<T, C>(c, m, 1, bias, few_rows::InPairs<Code, scales>{m, a.data<BFloat16>(), x});
    return true;
  }
  template <int scales>
  bool pairs_with() const {
    using few_rows::FourBitPairs, few_rows::BytePairs;
    switch (m.type) {
      case CodeType::four_bits:
        return in_pairs<FourBitPairs<true, scales>, scales>() ||
               in_pairs<FourBitPairs<false, scales>, scales>();
      case CodeType::int8:
        return in_pairs<BytePairs<CodeType::int8, false, scales>, scales>() ||
               in_pairs<BytePairs<CodeType::int8, true, scales>, scales>();
      case CodeType::e4m3:
        return in_pairs<BytePairs<CodeType::e4m3, false, scales>, scales>();
    }
    return false;
  }
  bool by_pairs() const {
    switch (few_rows::most_scales_of_step(m)) {
      case 1: return pairs_with<1>();
      case 2: return pairs_with<2>();
      default: return pairs_with<4>();
    }
  }
#endif
#if defined(TRIREME_BYTE_TABLES)
  template <CodeType type, bool by_factor>
  bool in_byte_tables() const {
    using Product = few_rows::InByteTables<type, by_factor>;
    if (!Product::takes(m)) return false;
    const typename Product::Left* x = nullptr;
    if constexpr (Product::in_order)
      x = a.data<BFloat16>();
    else
      x = laid_out<BFloat16, Product, typename Product::Left, Product::step>(a);
    share<T, C>(c, m, 1, bias, Product{m, a.data<BFloat16>(), x});
    return true;
  }
  bool by_byte_tables() const {
    return in_byte_tables<CodeType::e4m3, false>() ||
           in_byte_tables<CodeType::int8, false>() ||
           in_byte_tables<CodeType::int8, true>();
  }
#endif
  // Ways of one row of bf16 alone.
  bool by_one_row() const {
    if (!in_steps(m)) return false;
#if defined(TRIREME_BYTE_TABLES)
    if (by_byte_tables()) return true;
#endif
#if defined(TRIREME_PAIRS)
    return by_pairs();
#else
    return false;
#endif
  }
#if defined(TRIREME_CODE_TABLES)
  bool by_four_bits() const {
    using few_rows::BookTables, few_rows::ScaledTables;
    if (by<BookTables<T, 2>>()) return true;
    if constexpr (std::is_same_v<T, float>) {
      if (by<BookTables<T, 4>>()) return true;
    } else {
      if (by<ScaledTables<T, true>>()) return true;
    }
    return by<ScaledTables<T, false>>();
  }
  template <CodeType type>
  bool by_bytes() const {
    using few_rows::SpreadBytes;
    if (by<SpreadBytes<T, type, false>>()) return true;
    if constexpr (type == CodeType::int8) return by<SpreadBytes<T, type, true>>();
    return false;
  }
#else
  bool by_four_bits() const {
    using few_rows::FourBits;
    return by<FourBits<T, true>>() || by<FourBits<T, false>>();
  }
  template <CodeType type>
  bool by_bytes() const {
    return by<few_rows::Bytes<T, type, false>>() || by<few_rows::Bytes<T, type, true>>();
  }
#endif
  bool in_registers() const {
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (a.dim(0) == 1 && by_one_row()) return true;
#if defined(TRIREME_PAIRS)
      if (a.dim(0) == 1) return false;  // other ways add up in another order
#endif
    }
    switch (m.type) {
      case CodeType::four_bits: return by_four_bits();
      case CodeType::int8: return by_bytes<CodeType::int8>();
      case CodeType::e4m3: return by_bytes<CodeType::e4m3>();
    }
    return false;
  }
};

template <class T, class C>
void multiply(const TensorView& c, const TensorView& a, const CodedMatrix& m,
              const TensorView& bias) {
  if (!Multiply<T, C>{c, a, m, bias}.in_registers())
    share<T, C>(c, m, a.dim(0), bias, Decoded<T>{m, a.data<T>(), a.stride(0)});
}

}  // namespace

void gemm_few_rows(const TensorView& c, const TensorView& a, const CodedMatrix& b_NK,
                   const TensorView& bias) {
  if (a.dtype() == DType::f32) return multiply<float, float>(c, a, b_NK, bias);
  if (c.dtype() == DType::f32) return multiply<BFloat16, float>(c, a, b_NK, bias);
  multiply<BFloat16, BFloat16>(c, a, b_NK, bias);
}

}  // namespace trireme::kernels
