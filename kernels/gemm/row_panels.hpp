// Rows of A side by side in registers: dot products of many rows, to the bit as of one.
// SPDX-License-Identifier: Apache-2.0
// One row by one column is summed in lanes, a word of K in each, and then over the lanes.
// Here a register holds one lane of as many rows as it has lanes: the rows are packed by
// lane, and a word of the column is spread over a register. Sums of lanes are added up in
// the same order. No sum has to be taken apart, and the column is read where it lies.
// Of half as many rows, or a quarter, a register holds two or four lanes side by side, so
// that it is full all the same.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/split.hpp"
#include "kernels/gemm/row_terms.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"

namespace trireme::kernels {

// Columns whose part of B stays in the second cache while the rows pass.
inline constexpr std::int64_t block_columns = 48;

template <class T>
class RowPanels {
  using A = Accumulator<T>;
  using Terms = RowTerms<T>;
  using Vector = simd::Vector<A>;
  static constexpr int lanes = simd::lanes<A>;
  static constexpr int most_vectors = simd::registers == 32 ? 4 : 2;
  // Registers' worth of K whose columns stay in the first cache through all lanes.
  static constexpr std::int64_t most_steps = 2048 / simd::register_bytes;
  static constexpr std::int64_t cache_line = 64;  // bytes
  // Of what comes next from memory a little is asked for with each step, which more
  // instructions hide; not where a number takes several that keep registers busy.
  static constexpr bool fetches_at_once = sizeof(T) < sizeof(A) && Terms::registers > 1;
  // Tiles that take a lane of the rows in turn while it is in the first cache: more where
  // their columns, of a smaller type than the sums, leave room there.
  static constexpr int tiles_of(int vectors) {
    return vectors == most_vectors && sizeof(T) < sizeof(A) ? 2 : 1;
  }
  // Columns of a tile, whose sums stay in registers.
  static constexpr int columns_of(int vectors) {
    for (const int columns : {8, 6})
      if (vectors * columns + (vectors + 1) * Terms::registers <= simd::registers)
        return columns;
    return 4;
  }
  static_assert(block_columns % 16 == 0 && block_columns % 12 == 0);

 public:
  static constexpr std::int64_t most_rows = most_vectors * lanes;
  // Of M rows, those that are worth a register: others are taken row by row.
  static std::int64_t rows_of(std::int64_t M) {
    const std::int64_t left = M % lanes;
    const bool worth = M >= lanes         ? 5 * left > 2 * lanes
                       : group_of(M) == 1 ? 4 * left >= lanes
                                          : M > std::max(1, lanes / 8);
    return std::is_same_v<T, Float16> ? 0 : worth ? M : M - left;
  }
  static std::size_t bytes(std::int64_t rows, std::int64_t K) {
    const std::int64_t registers = divide_up(rows, lanes) * lanes / group_of(rows);
    return static_cast<std::size_t>(registers * (K / Terms::step * Terms::step)) *
           sizeof(T);
  }

  // Packs the first `rows` rows of `a` into `to`, which has room for bytes().
  RowPanels(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t K, void* to,
            int threads)
      : packed_(static_cast<T*>(to)), rows_(rows), steps_(K / Terms::step) {
    const std::int64_t vectors = divide_up(rows, lanes);
    panels_ = divide_up(vectors, most_vectors);
    if (group_of(rows) > 1) {
      pack_groups(a, stride);
      return;
    }
    for_ranges("gemm.pack", vectors, std::max<std::int64_t>(1, (1 << 14) / (K * lanes)),
               threads, [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t v = begin; v < end; ++v) pack(a, stride, v);
               });
  }

  std::int64_t panels() const { return panels_; }
  Range rows_of_panel(std::int64_t panel) const {
    const Range vectors = vectors_of(panel);
    return {vectors.begin * lanes, std::min(vectors.end * lanes, rows_)};
  }

  // sums[row][column] of the rows of a panel, block_columns apart, by `count` columns at
  // b, at most block_columns of them; what K has beyond whole registers is left out.
  void multiply(std::int64_t panel, const T* b, std::int64_t b_stride, std::int64_t count,
                A* sums) const {
    const Range vectors = vectors_of(panel);
    const T* from = packed_ + vectors.begin * steps_ * lanes * Terms::step;
    if constexpr (sizeof(A) == sizeof(float)) {
      const int group = group_of(rows_);
      if (group == 2) return multiply<1, 2>(from, b, b_stride, count, sums);
      if (group == 4) return multiply<1, 4>(from, b, b_stride, count, sums);
    }
    switch (vectors.count()) {
      case 1: return multiply<1>(from, b, b_stride, count, sums);
      case 2: return multiply<2>(from, b, b_stride, count, sums);
      case 3: return multiply<std::min(3, most_vectors)>(from, b, b_stride, count, sums);
      default: return multiply<most_vectors>(from, b, b_stride, count, sums);
    }
  }

 private:
  // How many lanes a register holds of each of so many rows.
  static int group_of(std::int64_t rows) {
    if (sizeof(A) != sizeof(float) || rows == 0 || rows > lanes / 2) return 1;
    return rows > lanes / 4 ? 2 : 4;
  }
  Range vectors_of(std::int64_t panel) const {
    return split_range(divide_up(rows_, lanes), panels_, panel);
  }

  // Parts of K, of which the columns stay in the first cache.
  std::int64_t parts() const {
    return std::max<std::int64_t>(1, divide_up(steps_, most_steps));
  }

  // Of panel after panel: part after part of K, of that lane by lane, step by step, the
  // words of all its rows, in the order in which they are read.
  void pack(const T* a, std::int64_t stride, std::int64_t vector) {
    std::int64_t panel = 0;
    while (vectors_of(panel).end <= vector) ++panel;
    const Range vectors = vectors_of(panel);
    T* to =
        packed_ + (vectors.begin * steps_ * lanes + vector - vectors.begin) * Terms::step;
    for (std::int64_t part = 0; part < parts(); ++part) {
      const Range steps = split_range(steps_, parts(), part);
      for (std::int64_t s = steps.begin; s < steps.end; ++s) {
        Vector words[lanes];
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) {
          words[i] = Vector{};
          if (const std::int64_t row = vector * lanes + i; row < rows_)
            std::memcpy(&words[i], a + row * stride + s * Terms::step, sizeof(Vector));
        }
        simd::exchange_all<A>(words);
#pragma GCC unroll 16
        for (int lane = 0; lane < lanes; ++lane)
          simd::store_vector(
              reinterpret_cast<A*>(to + (lane * steps.count() + s - steps.begin) *
                                            vectors.count() * Terms::step),
              words[lane]);
      }
      to += steps.count() * lanes * vectors.count() * Terms::step;
    }
  }

  // The same of few rows, whose lanes lie together by groups.
  void pack_groups(const T* a, std::int64_t stride) {
    const int group = group_of(rows_);
    const std::int64_t rows = lanes / group, words = Terms::step / lanes * group;
    T* to = packed_;
    std::fill_n(to, steps_ * rows * Terms::step, T{});
    for (std::int64_t part = 0; part < parts(); ++part) {
      const Range steps = split_range(steps_, parts(), part);
      for (std::int64_t lane = 0; lane < lanes; lane += group)
        for (std::int64_t s = steps.begin; s < steps.end; ++s, to += Terms::step)
          for (std::int64_t row = 0; row < rows_; ++row)
            std::copy_n(a + row * stride + s * Terms::step + lane * Terms::step / lanes,
                        words, to + row * words);
    }
  }

  template <int vectors, int group = 1>
  void multiply(const T* from, const T* b, std::int64_t b_stride, std::int64_t count,
                A* sums) const {
    constexpr int tiles = tiles_of(vectors), columns = tiles * columns_of(vectors),
                  width = vectors * lanes / group;
    // Whole registers are transposed, of few rows with what lies behind.
    constexpr int behind = vectors * lanes - width;
    alignas(64) A by_column[block_columns * width + behind];
    const std::int64_t whole = divide_up(count, lanes) * lanes;
    std::fill(by_column + count * width, by_column + whole * width + behind, A(0));
    for (std::int64_t column = 0; column < count; column += columns) {
      std::array<const T*, columns> b_c;
      for (int c = 0; c < columns; ++c)
        b_c[static_cast<std::size_t>(c)] =
            b + std::min<std::int64_t>(column + c, count - 1) * b_stride;
      multiply_tiles<vectors, tiles, group>(from, b_c, b + (column + columns) * b_stride,
                                            b_stride, by_column + column * width);
    }
    simd::transpose<A>(whole, width + behind, A(1), by_column, width, sums,
                       block_columns);
  }

  // Sums of lanes come and go where K has more steps than stay in a cache. Meanwhile the
  // columns behind these are fetched, a part with each lane: they mostly come from
  // memory.
  template <int vectors, int tiles, int group>
  [[gnu::noinline]] void multiply_tiles(
      const T* from, const std::array<const T*, tiles * columns_of(vectors)>& b,
      const T* behind, std::int64_t b_stride, A* to) const {
    constexpr int columns = columns_of(vectors), sums_of_tile = columns * vectors;
    constexpr int groups = lanes / group;
    using Fetch =
        SharedFetch<tiles * columns, tiles * groups, fetches_at_once && group == 1>;
    Vector kept[groups][tiles * sums_of_tile];
    const T* x = from;
    for (std::int64_t part = 0; part < parts(); ++part) {
      const Range steps = split_range(steps_, parts(), part);
      const std::int64_t of_lane = steps.count() * vectors * Terms::step;
      for (int i = 0; i < groups; ++i, x += of_lane)
        for (int tile = 0; tile < tiles; ++tile) {
          const Fetch fetch(behind, b_stride, steps, i * tiles + tile);
          multiply_lane<vectors, columns, group>(
              x, steps, b.data() + tile * columns, fetch, i * group, part == 0,
              part + 1 == parts(), kept[i] + tile * sums_of_tile,
              to + tile * sums_of_tile * groups);
        }
    }
  }

  // What one of `sharers` loops over the same steps of K asks for of `columns` columns:
  // all columns or a part of one, a little with each step; or some lines of each at once.
  template <int columns, int sharers, bool at_once>
  class SharedFetch {
   public:
    SharedFetch(const T* b, std::int64_t b_stride, const Range& steps, int i)
        : from_(reinterpret_cast<const char*>(b + steps.begin * Terms::step)),
          stride_(b_stride * static_cast<std::int64_t>(sizeof(T))) {
      const std::int64_t bytes = steps.count() * simd::register_bytes;
      if constexpr (at_once) {
        const Range lines = split_range(divide_up(bytes, cache_line), sharers, i);
        for (std::int64_t line = lines.begin; line < lines.end; ++line)
          fetch<columns>(line * cache_line);
      } else {
        from_ += std::min(i / parts * whole, columns - whole) * stride_ +
                 i % parts * (bytes / parts);
      }
    }
    [[gnu::always_inline]] void with_step(std::int64_t step) const {
      if constexpr (!at_once) fetch<whole>(step * simd::register_bytes / parts);
    }

   private:
    static constexpr int whole = std::max(1, columns / sharers);
    static constexpr int parts = std::max(1, sharers / columns);  // of a column
    template <int count>
    [[gnu::always_inline]] void fetch(std::int64_t at) const {
      const char* of_column = from_ + at;
#pragma GCC unroll 12
      for (int c = 0; c < count; ++c, of_column += stride_) __builtin_prefetch(of_column);
    }
    const char* from_;
    std::int64_t stride_;  // bytes
  };

  // `group` lanes of some steps. Sums begin at 0 with the first of them, and with the
  // last are added to those of the lanes before.
  template <int vectors, int columns, int group, class Fetch>
  [[gnu::always_inline]] void multiply_lane(const T* x, const Range& steps,
                                            const T* const* b, const Fetch& fetch,
                                            int lane, bool first, bool last, Vector* kept,
                                            A* to) const {
    constexpr std::int64_t per_word = Terms::step / lanes;
    constexpr std::int64_t ahead = 16 * cache_line / sizeof(T);
    Vector sums[columns * vectors];
#pragma GCC unroll 32
    for (int i = 0; i < columns * vectors; ++i) sums[i] = first ? Vector{} : kept[i];
    for (std::int64_t s = steps.begin; s < steps.end; ++s) {
      fetch.with_step(s - steps.begin);
      typename Terms::Loaded rows[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) rows[v] = Terms::read(x + v * Terms::step);
      if constexpr (simd::registers == 16) __builtin_prefetch(x + ahead);
      x += vectors * Terms::step;
#pragma GCC unroll 8
      for (int c = 0; c < columns; ++c) {
        const auto y = Terms::template spread<group, vectors>(b[c] + lane * per_word +
                                                              s * Terms::step);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
          sums[c * vectors + v] = Terms::add(sums[c * vectors + v], rows[v], y);
      }
    }
#pragma GCC unroll 32
    for (int i = 0; i < columns * vectors; ++i) {
      if (!last)
        kept[i] = sums[i];
      else
        add_lanes<group>(sums[i], lane == 0, to + i * (lanes / group));
    }
  }

  // Of each row the j-th of its `group` lanes.
  template <int group>
  struct RowsOf {
    typedef A type __attribute__((vector_size(sizeof(Vector) / group)));
  };
  template <int group, int j>
  [[gnu::always_inline]] static typename RowsOf<group>::type lane_of(Vector sums) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return __builtin_shufflevector(sums, sums, int(I * group + j)...);
    }
    (std::make_index_sequence<lanes / group>());
  }

  // Adds to one sum of each row those of its `group` lanes, in their order.
  template <int group>
  [[gnu::always_inline]] static void add_lanes(Vector sums, bool first, A* to) {
    typename RowsOf<group>::type all{};
    if (!first) std::memcpy(&all, to, sizeof all);
    [&]<std::size_t... J>(std::index_sequence<J...>) {
      ((all = first && J == 0 ? lane_of<group, J>(sums) : all + lane_of<group, J>(sums)),
       ...);
    }
    (std::make_index_sequence<group>());
    std::memcpy(to, &all, sizeof all);
  }

  T* packed_;
  std::int64_t rows_, steps_, panels_ = 0;
};

}  // namespace trireme::kernels
