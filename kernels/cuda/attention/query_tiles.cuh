// Tiles of queries as attention backward goes over them, for a tile of keys.
// SPDX-License-Identifier: Apache-2.0
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
#pragma once

#include "kernels/cuda/attention/fragments.cuh"

namespace trireme::kernels::cuda::fragments {

// lse in units of log 2; of a query that sees nothing any finite number, for all its
// probabilities are made 0 before.
__device__ inline float exponent_of(float lse) {
  return lse == -std::numeric_limits<float>::infinity()
             ? 0.0f
             : lse * static_cast<float>(log2_e);
}

// Rows of sums of a warp, times `factor`, to rows from `first` to `end` of the target.
template <int K, int M, class T>
__device__ inline void put(const float (&sums)[M][K / 8][4], float factor,
                           const Target<T>& target, int b, int first, int end,
                           std::int64_t column) {
  for_rows<M>(first, [&](int m, int i, int row) {
    put_row<K>(target, b, row, row < end, column,
               [&](int c, int j) { return sums[m][c][2 * i + j] * factor; });
  });
}

// The tiles of Rows queries that see one of Keys keys from `first_key` on: of each head
// that uses a key/value head, in order. All lanes of a warp go along together. What
// follows from `first_key` is computed when it is needed: registers are scarce while
// tiles are summed.
template <class T, int Keys, int Rows>
struct QueryTiles {
  const BackwardOperands<T>& x;
  int b, kv_head, first_key;
  int h = -1, at = 0;

  __device__ QueryTiles(const BackwardOperands<T>& operands, int sequence, int head,
                        int first)
      : x(operands), b(sequence), kv_head(head), first_key(first) {
    at = x.part.queries;
    next();
  }
  // At a tile that it has come to before.
  __device__ QueryTiles(const BackwardOperands<T>& operands, int sequence, int head,
                        int first, int query_head, int query)
      : x(operands),
        b(sequence),
        kv_head(head),
        first_key(first),
        h(query_head),
        at(query) {}
  __device__ int first_query() const {
    return max(0, recomputed(first_key) - x.part.past) / Rows * Rows;
  }
  __device__ bool valid() const { return h < x.part.heads; }
  __device__ void next() {
    do {
      at += Rows;
      if (at < x.part.queries) continue;
      at = first_query();
      do {
        ++h;
      } while (valid() && x.part.kv_head[h] != kv_head);
      if (at >= x.part.queries) h = x.part.heads;  // no query sees a key
    } while (valid() && !any_sees());
  }
  __device__ bool any_sees() const {
    if (x.part.first == nullptr) return true;
    const int end = min(recomputed(first_key) + Keys, x.part.keys);
    bool sees = false;
#pragma unroll
    for (int i = 0; i < Rows; i += warp_size) {
      const int query = at + i + lane_index();
      sees = sees || (query < x.part.queries && x.part.begin(b, query) < end);
    }
    return __any_sync(all_lanes, sees);
  }
};

// What is known of the queries of a tile, by stage.
template <int Rows, int Stages>
struct QueryNumbers {
  float lse[Stages][Rows], delta[Stages][Rows];
  int begin[Stages][Rows];
  int at[Stages];       // the first of the tile, or -1 if there is no tile
  std::int64_t column;  // of the results, which no register keeps while tiles are summed
};

// One query's numbers on their way to shared memory: threads [0, Rows) have one each.
struct QueryNumber {
  float lse = 0, delta = 0;
  int begin = 0;

  template <class Tile>
  __device__ void load(const Tile& tile) {
    const int query = tile.at + thread_index();
    const bool inside = query < tile.x.part.queries;
    lse = inside ? exponent_of(*tile.x.lse.at(tile.b, query, tile.h)) : 0.0f;
    delta = inside ? *tile.x.delta.at(tile.b, query, tile.h) : 0.0f;
    begin = inside ? tile.x.part.begin(tile.b, query) : 0;
  }
  template <int Rows, int Stages>
  __device__ void store(QueryNumbers<Rows, Stages>& to, int stage) const {
    to.lse[stage][thread_index()] = lse;
    to.delta[stage][thread_index()] = delta;
    to.begin[stage][thread_index()] = begin;
  }
};

// s^T becomes p^T and dp^T becomes ds^T, of keys from `key` on and queries from `at` on.
template <int M, int N, class Numbers>
__device__ inline void differentiate(const Geometry& part, const Numbers& numbers,
                                     int stage, int key, int at, float (&s)[M][N][4],
                                     float (&dp)[M][N][4]) {
  const bool all = part.first == nullptr && key + M * rows <= part.end(at);
  const float factor = static_cast<float>(part.factor);
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      // Of many columns the numbers take too many registers, if all are loaded ahead.
      const int place = 8 * n + lane_index() % 4 * 2 + j;
      const int column = N > 4 ? recomputed(place) : place;
      const float lse = numbers.lse[stage][column], delta = numbers.delta[stage][column];
      const int begin = numbers.begin[stage][column], end = part.end(at + column);
      for_rows<M>(key, [&](int m, int i, int row) {
        const bool visible = all || (row >= begin && row < end);
        float& p = s[m][n][2 * i + j];
        float& ds = dp[m][n][2 * i + j];
        p = visible ? exp2_approx(p * factor - lse) : 0.0f;
        ds = p * (ds - delta);
      });
    }
}

// Starts copies of a tile's rows of q and do, by a block of Threads threads.
template <int K, int Threads, class T, int Keys, int Rows>
__device__ inline void load_queries(const QueryTiles<T, Keys, Rows>& tile, T* to) {
  const BackwardOperands<T>& x = tile.x;
  const std::int64_t column = std::int64_t{tile.h} * K;
  const int queries = x.part.queries - tile.at, sequence = recomputed(tile.b);
  load_rows<K, Rows, Threads>(x.q.at(sequence, tile.at, column), x.q.row, queries, to);
  load_rows<K, Rows, Threads>(x.d_o.at(sequence, tile.at, column), x.d_o.row, queries,
                              to + Rows * K);
}

}  // namespace trireme::kernels::cuda::fragments
