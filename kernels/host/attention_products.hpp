// How blocks of attention are packed and multiplied: in f32 or f64, or in bf16.
// SPDX-License-Identifier: Apache-2.0
// All have the same functions and memory. A `Session` lives while a thread multiplies.
// `s` is a stripe of a block of keys, `end` the end of its columns; scores, probabilities
// and their gradients are [block][block], queries along the lanes; sums over keys are
// [K][block].
#pragma once

#include <type_traits>

#include "kernels/gemm/amx_tile.hpp"
#include "kernels/gemm/bf16_product.hpp"
#include "kernels/host/attention_blocks.hpp"
#include "kernels/host/attention_pairs.hpp"
#include "kernels/host/attention_tiles.hpp"

namespace trireme::kernels::blocks {

// A packed block of keys or values, for sums along its width and along its rows.
template <class A>
struct PackedKeys {
  A *by_width = nullptr, *by_rows = nullptr;
};

// In the accumulator's type, as it comes.
template <class T>
struct PlainProducts {
  using A = Accumulator<T>;
  struct Session {};
  static constexpr std::int64_t stripe_keys = least_stripe;

  static PackedKeys<A> take_keys(Pieces<A>& pieces, std::int64_t stride) {
    A* const rows = pieces.take(block * stride);
    return {rows, rows};
  }
  static void pack_by_width(const T* from, std::int64_t from_stride, std::int64_t rows,
                            std::int64_t width, const PackedKeys<A>& to) {
    pack_rows(from, from_stride, rows, rows, width, to.by_width);
  }
  static void pack_by_rows(const T* from, std::int64_t from_stride, std::int64_t rows,
                           std::int64_t width, const PackedKeys<A>& to) {
    pack_rows(from, from_stride, rows, rows, width, to.by_rows);
  }
  static void pack_both(const T* from, std::int64_t from_stride, std::int64_t rows,
                        std::int64_t width, const PackedKeys<A>& to) {
    pack_by_width(from, from_stride, rows, width, to);
  }
  // Queries, as columns that already have the factor of the scores, and as rows.
  static void pack_queries(const T* from, std::int64_t from_stride, std::int64_t rows,
                           std::int64_t padded_rows, std::int64_t width, A factor,
                           A* by_rows, A* columns) {
    const std::int64_t stride = padded(width);
    pack_rows(from, from_stride, rows, padded_rows, width, by_rows);
    simd::transpose(padded_rows, stride, factor, by_rows, stride, columns, block);
  }
  // The same, where rows are only on the way.
  static void pack_columns(const T* from, std::int64_t from_stride, std::int64_t rows,
                           std::int64_t padded_rows, std::int64_t width, A factor,
                           A* scratch, A* columns) {
    pack_queries(from, from_stride, rows, padded_rows, width, factor, scratch, columns);
  }
  // Rows from `first` on of packed queries, in the accumulator's type.
  static const A* unpacked(const A* by_rows, std::int64_t first, const T* /*from*/,
                           std::int64_t /*from_stride*/, std::int64_t /*rows*/,
                           std::int64_t width, A* /*scratch*/) {
    return by_rows + first * padded(width);
  }

  // scores = keys columns
  static void score(const Stripe& s, std::int64_t end, std::int64_t width, A /*factor*/,
                    const PackedKeys<A>& keys, const A* columns, A* scores) {
    const std::int64_t stride = padded(width);
    simd::multiply<A, false>(
        s.keys, end - s.column, width, {keys.by_width + s.key * stride, stride},
        {columns + s.column, block}, {scores + s.key * block + s.column, block}, {});
  }
  static void round_keys(const Stripe&, std::int64_t, A*) {}
  // sums = previous + keys^T x
  static void sum_keys(const Stripe& s, std::int64_t end, std::int64_t width,
                       const PackedKeys<A>& keys, const A* x, A* sums,
                       simd::Previous<A> previous) {
    const std::int64_t stride = padded(width);
    simd::multiply<A, true>(
        width, end - s.column, s.keys, {keys.by_rows + s.key * stride, stride},
        {x + s.key * block + s.column, block}, {sums + s.column, block}, previous);
  }
  static void round_gradients(const Stripe&, std::int64_t, A*, A*) {}
  // dv += p by_rows, dk += ds by_rows, whose rows are queries [s.column, rows)
  static void add_values(const Stripe& s, std::int64_t rows, std::int64_t stride,
                         const A* p, const A* by_rows, A* sums) {
    simd::multiply<A, false>(
        s.keys, stride, rows - s.column, {p + s.key * block + s.column, block},
        {by_rows + s.column * stride, stride}, {sums, stride}, {true});
  }
  static void add_keys(const Stripe& s, std::int64_t rows, std::int64_t stride,
                       const A* /*p*/, const A* ds, const A* by_rows, A* sums) {
    add_values(s, rows, stride, ds, by_rows, sums);
  }
};

// By the processor's products of bf16: probabilities and gradients of scores are rounded
// to bf16, and all sums are f32. Packed blocks take half of the memory of the others.
struct PairProducts {
  using T = BFloat16;
  using A = float;
  struct Session {};
  static constexpr std::int64_t stripe_keys = least_stripe;

  static PackedKeys<A> take_keys(Pieces<A>& pieces, std::int64_t stride) {
    A* const both = pieces.take(block * stride);
    return {both, both + block * stride / 2};
  }
  static void pack_by_width(const T* from, std::int64_t from_stride, std::int64_t rows,
                            std::int64_t width, const PackedKeys<A>& to) {
    pairs::pack_rows(from, from_stride, rows, width, padded(width), to.by_width);
  }
  static void pack_by_rows(const T* from, std::int64_t from_stride, std::int64_t rows,
                           std::int64_t width, const PackedKeys<A>& to) {
    pairs::pack_row_pairs(from, from_stride, rows, width, padded(width), to.by_rows);
  }
  static void pack_both(const T* from, std::int64_t from_stride, std::int64_t rows,
                        std::int64_t width, const PackedKeys<A>& to) {
    pack_by_width(from, from_stride, rows, width, to);
    pack_by_rows(from, from_stride, rows, width, to);
  }
  static void pack_columns(const T* from, std::int64_t from_stride, std::int64_t rows,
                           std::int64_t padded_rows, std::int64_t width, A /*factor*/,
                           A* /*scratch*/, A* columns) {
    pairs::pack_columns(from, from_stride, rows, padded_rows, width, padded(width),
                        columns, block);
  }
  static void pack_queries(const T* from, std::int64_t from_stride, std::int64_t rows,
                           std::int64_t padded_rows, std::int64_t width, A factor,
                           A* by_rows, A* columns) {
    const std::int64_t stride = padded(width), packed = round_up(rows, 2);
    pairs::pack_row_pairs(from, from_stride, rows, width, stride, by_rows);
    std::fill(by_rows + packed * stride / 2, by_rows + padded_rows * stride / 2, A(0));
    pack_columns(from, from_stride, rows, padded_rows, width, factor, nullptr, columns);
  }
  static const A* unpacked(const A* /*by_rows*/, std::int64_t /*first*/, const T* from,
                           std::int64_t from_stride, std::int64_t rows,
                           std::int64_t width, A* scratch) {
    pack_rows(from, from_stride, rows, rows, width, scratch);
    return scratch;
  }

  static void score(const Stripe& s, std::int64_t end, std::int64_t width, A factor,
                    const PackedKeys<A>& keys, const A* columns, A* scores) {
    const std::int64_t words = padded(width) / 2;
    pairs::multiply(s.keys, end - s.column, words,
                    {keys.by_width + s.key * words, words, 1},
                    {columns + s.column, block},
                    {scores + s.key * block + s.column, block}, factor, {});
  }
  // Probabilities of keys 2 j and 2 j + 1 become row j of the block.
  static void round_keys(const Stripe& s, std::int64_t end, A* p) {
    pairs::round_row_pairs({p + s.key * block, block}, s.keys, s.column, end,
                           {p + s.key / 2 * block, block});
  }
  static void sum_keys(const Stripe& s, std::int64_t end, std::int64_t width,
                       const PackedKeys<A>& keys, const A* x, A* sums,
                       simd::Previous<A> previous) {
    const std::int64_t stride = padded(width);
    pairs::multiply(width, end - s.column, divide_up(s.keys, 2),
                    {keys.by_rows + s.key / 2 * stride, 1, stride},
                    {x + s.key / 2 * block + s.column, block}, {sums + s.column, block},
                    1, previous);
  }
  // Row j of p becomes that of p and, in its second half, of ds; ds as in round_keys().
  static void round_gradients(const Stripe& s, std::int64_t end, A* p, A* ds) {
    A *const p_rows = p + s.key * block, *const ds_rows = ds + s.key * block;
    pairs::round_rows({p_rows, block}, s.keys, s.column, end, {p_rows, block});
    pairs::round_rows({ds_rows, block}, s.keys, s.column, end,
                      {p_rows + block / 2, block});
    round_keys(s, end, ds);
  }
  static void add_values(const Stripe& s, std::int64_t rows, std::int64_t stride,
                         const A* p, const A* by_rows, A* sums) {
    pairs::multiply(s.keys, stride, divide_up(rows - s.column, 2),
                    {p + s.key * block + s.column / 2, block, 1},
                    {by_rows + s.column * stride / 2, stride}, {sums, stride}, 1, {true});
  }
  static void add_keys(const Stripe& s, std::int64_t rows, std::int64_t stride,
                       const A* p, const A* /*ds*/, const A* by_rows, A* sums) {
    add_values(s, rows, stride, p + block / 2, by_rows, sums);
  }
};

// By AMX, whose tiles hold 32 numbers of a sum: stripes have as many keys, and what a
// tile reads beyond the last key or query is 0. Heads are a multiple of 32 wide.
struct TileProducts : PairProducts {
  struct Session {
    Session() { configure_amx_tiles(); }
    ~Session() { release_amx_tiles(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };
  static constexpr std::int64_t stripe_keys = tiles::tile_numbers;

  // Of tiles along the keys of a block.
  static constexpr std::int64_t turned = block / 2 * tiles::tile_lines;

  static void pack_by_rows(const T* from, std::int64_t from_stride, std::int64_t rows,
                           std::int64_t width, const PackedKeys<A>& to) {
    tiles::pack_turned(from, from_stride, rows, width, to.by_rows, turned);
  }
  static void pack_both(const T* from, std::int64_t from_stride, std::int64_t rows,
                        std::int64_t width, const PackedKeys<A>& to) {
    pack_by_width(from, from_stride, rows, width, to);
    pack_by_rows(from, from_stride, rows, width, to);
  }

  static void score(const Stripe& s, std::int64_t end, std::int64_t width, A factor,
                    const PackedKeys<A>& keys, const A* columns, A* scores) {
    const std::int64_t words = width / 2;
    tiles::multiply(s.keys, end - s.column, words,
                    tiles::lines_of(keys.by_width + s.key * words, words),
                    {columns + s.column, block},
                    {scores + s.key * block + s.column, block}, factor, {});
  }
  static std::int64_t word_rows(const Stripe& s) {
    return round_up(s.keys, tiles::tile_numbers) / 2;
  }
  static void clear_missing(const Stripe& s, std::int64_t end, A* p) {
    for (std::int64_t j = divide_up(s.keys, std::int64_t{2}); j < word_rows(s); ++j) {
      A* const row = p + (s.key / 2 + j) * block;
      std::fill(row + s.column, row + end, A(0));
    }
  }
  static void round_keys(const Stripe& s, std::int64_t end, A* p) {
    PairProducts::round_keys(s, end, p);
    clear_missing(s, end, p);
  }
  static void sum_keys(const Stripe& s, std::int64_t end, std::int64_t width,
                       const PackedKeys<A>& keys, const A* x, A* sums,
                       simd::Previous<A> previous) {
    constexpr std::int64_t tile = tiles::tile_lines * tiles::tile_words;
    tiles::multiply(width, end - s.column, word_rows(s),
                    {keys.by_rows + s.key / tiles::tile_numbers * tile, tiles::tile_words,
                     turned, tile},
                    {x + s.key / 2 * block + s.column, block}, {sums + s.column, block},
                    1, previous);
  }
  static void round_gradients(const Stripe& s, std::int64_t end, A* p, A* ds) {
    PairProducts::round_gradients(s, end, p, ds);
    clear_missing(s, end, ds);
  }
  static void add_values(const Stripe& s, std::int64_t rows, std::int64_t stride,
                         const A* p, const A* by_rows, A* sums) {
    tiles::multiply(s.keys, stride, round_up(rows - s.column, tiles::tile_numbers) / 2,
                    tiles::lines_of(p + s.key * block + s.column / 2, block),
                    {by_rows + s.column * stride / 2, stride}, {sums, stride}, 1, {true});
  }
  static void add_keys(const Stripe& s, std::int64_t rows, std::int64_t stride,
                       const A* p, const A* /*ds*/, const A* by_rows, A* sums) {
    add_values(s, rows, stride, p + block / 2, by_rows, sums);
  }
};

// f(products) with those that the processor is fastest with.
template <class T, class F>
void with_products(std::int64_t width, const F& f) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (has_amx() && width % tiles::tile_numbers == 0) return f(TileProducts{});
    if (bf16_products_pay()) return f(PairProducts{});
  }
  f(PlainProducts<T>{});
}

}  // namespace trireme::kernels::blocks
