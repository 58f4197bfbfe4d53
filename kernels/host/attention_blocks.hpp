// How attention is cut into blocks and tasks on the host.
// SPDX-License-Identifier: Apache-2.0
// Blocks of queries and keys, stripes of a diagonal block, packing, workers are here.
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
// Packed blocks hold queries as columns (`_t`: [K][block], positions along the lanes) so
// that maxima and sums over keys need no sum across lanes, or as rows ([block][K]).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "base/tensor_view.hpp"
#include "kernels/attention.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::blocks {

inline constexpr std::int64_t block = 64;         // queries, and keys, of a block
inline constexpr std::int64_t least_stripe = 16;  // keys of a stripe of a diagonal block
inline constexpr std::int64_t group = 4;  // query blocks that share a packed key block

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return divide_up(n, unit) * unit;
}
// Padded head width; a multiple of every vector's lanes.
constexpr std::int64_t padded(std::int64_t width) { return round_up(width, 16); }
// Query blocks of the largest group of `queries` queries.
constexpr std::int64_t group_blocks(std::int64_t queries) {
  return std::min(group, divide_up(queries, block));
}

// A part as loops over blocks see it: rows count from its first query and first key.
// Blocks of keys begin at key past + (a multiple of the block), so that the diagonal, if
// there is one, goes through the corners of blocks: the block at past + i is the
// diagonal's for queries from i on.
struct PartBlocks {
  Range query_rows, key_rows;
  std::int64_t queries, keys, past;
  bool causal;

  explicit PartBlocks(const AttentionPart& part)
      : query_rows(part.queries),
        key_rows(part.keys),
        queries(part.queries.count()),
        keys(part.keys.count()),
        past(part.causal ? keys - queries : keys),
        causal(part.causal) {}

  std::int64_t lowest() const { return -round_up(past, block); }
  // Blocks of keys that queries [first, end) see begin in [lowest(), last(end)).
  std::int64_t last(std::int64_t end) const { return causal ? end : 0; }
  // The keys of the block at past + key.
  Range block_keys(std::int64_t key) const {
    return {std::max<std::int64_t>(past + key, 0), std::min(past + key + block, keys)};
  }
};

// Keys [key, key + keys) of a block, seen by its queries from `column` on.
struct Stripe {
  std::int64_t key, keys, column;
};

// Calls f(stripe) so that all visible (key, query) pairs are covered once: one stripe,
// or on the diagonal one for every `stripe` keys, which leaves out most of what is
// masked.
template <std::int64_t stripe, class F>
void for_stripes(bool diagonal, std::int64_t keys, const F& f) {
  if (!diagonal) return f(Stripe{0, keys, 0});
  for (std::int64_t key = 0; key < keys; key += stripe)
    f(Stripe{key, std::min(stripe, keys - key), key});
}

// A matrix of T whose row t of sequence b begins at data + b * sequence + t * row.
template <class T>
struct Heads {
  T* data = nullptr;
  std::int64_t row = 0, sequence = 0;

  // Column `column` of row t of sequence b.
  T* at(std::int64_t b, std::int64_t t, std::int64_t column) const {
    return data + b * sequence + t * row + column;
  }
};

// Rows from `first` on of each sequence of a view [B * S, n] or [B, C, n]. An empty view
// has no data.
template <class T>
Heads<T> heads_of(const TensorView& view, std::int64_t S, std::int64_t first) {
  if (view.empty()) return {};
  const int row = view.shape().rank() - 2;
  T* data = view.data<std::remove_const_t<T>>() + first * view.stride(row);
  return {data, view.stride(row), row == 1 ? view.stride(0) : S * view.stride(0)};
}

// Rows of one head lie a whole row of all heads apart, mostly on pages of their own, and
// no hardware prefetcher follows. Without asking early, forward took 1.4 to 1.5 times as
// long at S = 256 and 1.1 to 1.2 at S = 1024; backward 1.1 to 1.2 at both (f32, K = 64).
inline constexpr std::int64_t rows_ahead = 8;

template <bool Write, class T>
[[gnu::always_inline]] inline void prefetch(const T* data, std::int64_t stride,
                                            std::int64_t row, std::int64_t rows,
                                            std::int64_t width) {
  if (row >= rows) return;
  constexpr std::int64_t cache_line = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t c = 0; c < width; c += cache_line)
    __builtin_prefetch(data + row * stride + c, Write);
}

// Copies `rows` rows of `width` elements as accumulators to rows of `padded(width)`; the
// rest, up to row `padded_rows`, is zero.
template <class T>
void pack_rows(const T* from, std::int64_t stride, std::int64_t rows,
               std::int64_t padded_rows, std::int64_t width, Accumulator<T>* to) {
  const std::int64_t to_stride = padded(width);
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* source = from + r * stride;
    prefetch<false>(from, stride, r + rows_ahead, rows, width);
    Accumulator<T>* target = to + r * to_stride;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) target[c] = load(source[c]);
    for (std::int64_t c = width; c < to_stride; ++c) target[c] = 0;
  }
  std::fill(to + rows * to_stride, to + padded_rows * to_stride, Accumulator<T>(0));
}

// The way back, times `factor`.
template <class T>
void unpack_rows(const Accumulator<T>* from, std::int64_t rows, std::int64_t width,
                 Accumulator<T> factor, T* to, std::int64_t stride) {
  const std::int64_t from_stride = padded(width);
  for (std::int64_t r = 0; r < rows; ++r) {
    const Accumulator<T>* source = from + r * from_stride;
    T* target = to + r * stride;
    prefetch<true>(to, stride, r + rows_ahead, rows, width);
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) target[c] = store<T>(source[c] * factor);
  }
}

// As above, added to what is there.
template <class A>
void add_rows(const A* from, std::int64_t rows, std::int64_t width, A factor, A* to,
              std::int64_t stride) {
  const std::int64_t from_stride = padded(width);
  for (std::int64_t r = 0; r < rows; ++r) {
    const A* source = from + r * from_stride;
    A* target = to + r * stride;
    prefetch<true>(to, stride, r + rows_ahead, rows, width);
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) target[c] += source[c] * factor;
  }
}

// Where results of a part go: written as T, or written or added as accumulators.
template <class T>
class Target {
  using A = Accumulator<T>;

 public:
  Target(const TensorView& view, std::int64_t S, std::int64_t first, bool added)
      : added_(added) {
    if (view.dtype() == dtype_of<A>)
      sums_ = heads_of<A>(view, S, first);
    else
      rounded_ = heads_of<T>(view, S, first);
    require(!added || rounded_.data == nullptr, "gradients are added to {}",
            name_of(view.dtype()));
  }
  // Rows t... of sequence b, from `column` on.
  void put(const A* from, std::int64_t rows, std::int64_t width, A factor, std::int64_t b,
           std::int64_t t, std::int64_t column) const {
    if (rounded_.data != nullptr)
      unpack_rows<T>(from, rows, width, factor, rounded_.at(b, t, column), rounded_.row);
    else if (added_)
      add_rows(from, rows, width, factor, sums_.at(b, t, column), sums_.row);
    else
      unpack_rows<A>(from, rows, width, factor, sums_.at(b, t, column), sums_.row);
  }
  const Heads<A>& sums() const { return sums_; }

 private:
  Heads<T> rounded_;
  Heads<A> sums_;
  bool added_;
};

// True in the lanes of queries `column`... that may not see `key`.
template <class A>
[[gnu::always_inline]] inline auto hidden(std::int64_t column, std::int64_t key) {
  return simd::lane_indices<A>() < static_cast<simd::Bits<A>>(key - column);
}

// Cuts a worker's memory into consecutive pieces.
template <class A>
struct Pieces {
  A* next;
  A* take(std::int64_t elements) { return std::exchange(next, next + elements); }
};

// What AttentionShape::first_T hides from the query blocks of a group; keys count from
// the first of the part.
template <class A>
class FirstKeys {
  using Integer = simd::Bits<A>;

 public:
  static std::int64_t memory(const AttentionShape& shape, const PartBlocks& part) {
    return shape.first_T.empty() ? 0 : group_blocks(part.queries) * block;
  }

  FirstKeys(const AttentionShape& shape, const PartBlocks& part, Pieces<A>& pieces)
      : sequence_(shape.sequence), query_(part.query_rows.begin), keys_(part.key_rows) {
    if (shape.first_T.empty()) return;
    rows_T_ = shape.first_T.data<std::int32_t>();
    first_ = reinterpret_cast<Integer*>(pieces.take(memory(shape, part)));
  }

  // Block i of the group is queries [at, at + rows) of sequence b.
  void load(std::int64_t i, std::int64_t b, std::int64_t at, std::int64_t rows) {
    if (rows_T_ == nullptr) return;
    const std::int32_t* from = rows_T_ + b * sequence_ + query_ + at;
    Integer* first = first_ + i * block;
    std::fill_n(first, block, Integer(0));
    for (std::int64_t r = 0; r < rows; ++r)
      first[r] = static_cast<Integer>(
          std::clamp<std::int64_t>(from[r], keys_.begin, keys_.end) - keys_.begin);
    const auto [least, most] = std::minmax_element(first, first + rows);
    least_[static_cast<std::size_t>(i)] = *least;
    most_[static_cast<std::size_t>(i)] = *most;
  }

  // Whether block i sees none of `keys`; whether some query of it does not see them all.
  bool hides_all(std::int64_t i, const Range& keys) const {
    return keys.end <= least_[static_cast<std::size_t>(i)];
  }
  bool hides_some(std::int64_t i, const Range& keys) const {
    return keys.begin < most_[static_cast<std::size_t>(i)];
  }
  // Whether blocks [0, blocks) see none of `keys`.
  bool hides_all_from(std::int64_t blocks, const Range& keys) const {
    for (std::int64_t i = 0; i < blocks; ++i)
      if (!hides_all(i, keys)) return false;
    return true;
  }

  // True in the lanes of queries `column`... of block i that may not see `key`.
  [[gnu::always_inline]] auto hidden(std::int64_t i, std::int64_t column,
                                     std::int64_t key) const {
    return simd::load_vector(first_ + i * block + column) > static_cast<Integer>(key);
  }

 private:
  const std::int32_t* rows_T_ = nullptr;
  std::int64_t sequence_, query_;
  Range keys_;
  Integer* first_ = nullptr;  // [blocks of a group][block]
  std::array<std::int64_t, group> least_{}, most_{};
};

// Scores s' [keys of a stripe][columns s.column to end], in units of log 2, become
// cap' tanh(s' / cap').
template <class A>
void cap_scores(const Stripe& s, std::int64_t end, A cap, A* scores_t) {
  const A inverse = 1 / cap;
  for (std::int64_t j = s.key; j < s.key + s.keys; ++j) {
    A* row = scores_t + j * block;
#pragma omp simd
    for (std::int64_t c = s.column; c < end; ++c)
      row[c] = cap * hyperbolic_tangent(row[c] * inverse);
  }
}

// Workers that are of use for `tasks` tasks.
inline std::int64_t workers_for(std::int64_t tasks, std::int64_t threads) {
  return std::clamp<std::int64_t>(tasks, 1, threads);
}

// Calls f(task, worker) once for each task. Workers, each with memory of its own, draw
// the next task when they are free. Which worker does a task must not matter.
template <class F>
void share_tasks(const char* label, std::int64_t tasks, std::int64_t workers,
                 const F& f) {
  std::atomic<std::int64_t> next{0};
  run_chunks(label, workers, ChunkBody([&](std::int64_t worker) {
               for (std::int64_t task; (task = next.fetch_add(1)) < tasks;)
                 f(task, worker);
             }));
}

}  // namespace trireme::kernels::blocks
