// Operands of attention's kernels: where rows lie, what a query sees, where results go.
// SPDX-License-Identifier: Apache-2.0
// A query sees keys of its own sequence and document, at its position or before.
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/error.hpp"
#include "base/split.hpp"
#include "kernels/attention.hpp"
#include "kernels/cuda/common/types.cuh"
#include "kernels/math/attention_dropout.hpp"

namespace trireme::kernels::cuda {

inline constexpr double log2_e = 1.4426950408889634;
inline constexpr double ln_2 = 0.69314718055994531;

// A matrix whose row t of sequence b begins at data + b * sequence + t * row.
template <class T>
struct SequenceRows {
  T* data = nullptr;
  std::int64_t row = 0, sequence = 0;

  // Column `column` of row t of sequence b.
  __host__ __device__ T* at(std::int64_t b, std::int64_t t, std::int64_t column) const {
    return data + b * sequence + t * row + column;
  }
};

// Rows from `first` on of each sequence of a view [B * S, n] or [B, C, n] of elements
// T of base/dtype.hpp. An empty view has no data.
template <class T>
SequenceRows<DeviceType<T>> rows_of(const TensorView& view, std::int64_t S,
                                    std::int64_t first) {
  if (view.empty()) return {};
  const int row = view.shape().rank() - 2;
  return {elements_of<T>(view) + first * view.stride(row), view.stride(row),
          row == 1 ? view.stride(0) : S * view.stride(0)};
}

// Where results of a part go: written as T, or written or added as accumulators.
template <class T>
struct Target {
  using W = Wide<T>;
  SequenceRows<T> rounded;
  SequenceRows<W> sums;
  bool added = false;

  // Two neighbours of the sums at once, if rows are aligned for that.
  __device__ void put_sums(std::int64_t b, std::int64_t t, std::int64_t column, W x,
                           W y) const {
    struct alignas(2 * sizeof(W)) Pair {
      W x, y;
    };
    Pair& to = *reinterpret_cast<Pair*>(sums.at(b, t, column));
    to = added ? Pair{to.x + x, to.y + y} : Pair{x, y};
  }
  // Eight neighbours of a row, where rows are aligned to 16 bytes and sums are fp32.
  __device__ void put_pack(std::int64_t b, std::int64_t t, std::int64_t column,
                           const W* x) const {
    if (rounded.data != nullptr) {
      Pack<T> pack;
#pragma unroll
      for (int i = 0; i < 8; ++i) pack.x[i] = narrow<T>(x[i]);
      store_pack(rounded.at(b, t, column), pack);
      return;
    }
#pragma unroll
    for (int half = 0; half < 8; half += 4) {
      W* const to = sums.at(b, t, column + half);
      Pack<W> pack = added ? load_pack(to) : Pack<W>{};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        pack.x[i] = added ? pack.x[i] + x[half + i] : x[half + i];
      store_pack(to, pack);
    }
  }
  __device__ void put(std::int64_t b, std::int64_t t, std::int64_t column, W x) const {
    if (rounded.data != nullptr) {
      *rounded.at(b, t, column) = narrow<T>(x);
    } else {
      W& to = *sums.at(b, t, column);
      to = added ? to + x : x;
    }
  }
};

template <class T>
Target<DeviceType<T>> target_of(const TensorView& view, std::int64_t S,
                                std::int64_t first, bool added) {
  Target<DeviceType<T>> target;
  target.added = added;
  if (view.dtype() == dtype_of<Accumulator<T>>)
    target.sums = rows_of<Accumulator<T>>(view, S, first);
  else
    target.rounded = rows_of<T>(view, S, first);
  require(!added || target.rounded.data == nullptr, "attention adds to {}",
          name_of(view.dtype()));
  return target;
}

// A part as kernels see it: rows count from its first query and its first key.
struct Geometry {
  static constexpr int most_heads = 512;

  int queries = 0, keys = 0, width = 0, heads = 0, kv_heads = 0;
  int past = 0;                         // query i sees keys [begin(i), i + past]
  double scale = 0, factor = 0;         // factor = scale log2 e: softmax in powers of two
  double cap = 0;                       // of scores, times log2 e; 0: none
  const std::int32_t* first = nullptr;  // of query 0 of sequence 0
  std::int64_t first_sequence = 0;
  int first_key = 0;  // what entries of `first` count from
  // Of dropout: rows of the sequence that query 0 and key 0 are, and what a probability
  // that is kept is multiplied by.
  bool drops = false;
  double kept = 1;
  std::int64_t query_row = 0, key_row = 0;
  math::AttentionMask mask{AttentionDropout{}};
  std::int16_t kv_head[most_heads] = {};

  __device__ int begin(std::int64_t b, int query) const {
    if (first == nullptr) return 0;
    const int key = first[b * first_sequence + query] - first_key;
    return key < 0 ? 0 : key < keys ? key : keys;
  }
  // What dropout multiplies a probability by.
  __device__ double factor_of(std::int64_t b, int h, int query, int key) const {
    if (!drops) return 1;
    return mask.keeps(mask.draws_of(b, h, query_row + query), key_row + key) ? kept : 0;
  }
  __device__ int end(int query) const {
    const int last = query + past + 1;
    return last < keys ? last : keys;
  }
};

inline Geometry geometry_of(const AttentionShape& shape, const AttentionPart& part) {
  constexpr std::int64_t most = 1 << 29;
  const std::int64_t queries = part.queries.count(), keys = part.keys.count();
  require(queries < most && keys < most,
          "attention of {} queries on {} keys: a GPU's part has fewer than {} of each",
          queries, keys, most);
  require(shape.heads <= Geometry::most_heads,
          "attention of {} heads: a GPU computes at most {} at once; use more tensor "
          "parallelism",
          shape.heads, Geometry::most_heads);
  Geometry g;
  g.queries = static_cast<int>(queries);
  g.keys = static_cast<int>(keys);
  g.width = static_cast<int>(shape.head_width);
  g.heads = static_cast<int>(shape.heads);
  g.kv_heads = static_cast<int>(shape.kv_heads);
  g.past = static_cast<int>(part.causal ? keys - queries : keys);
  g.scale = shape.scale;
  g.factor = shape.scale * log2_e;
  g.cap = shape.cap * log2_e;
  g.drops = shape.dropout.rate > 0;
  g.kept = 1 / (1 - shape.dropout.rate);
  g.query_row = part.queries.begin;
  g.key_row = part.keys.begin;
  g.mask = math::AttentionMask(shape.dropout);
  if (!shape.first_T.empty()) {
    g.first = shape.first_T.data<std::int32_t>() + part.queries.begin;
    g.first_sequence = shape.sequence;
    g.first_key = static_cast<int>(part.keys.begin);
  }
  for (std::size_t h = 0; h < shape.kv_head.size(); ++h)
    g.kv_head[h] = static_cast<std::int16_t>(shape.kv_head[h]);
  return g;
}

// Everything that forward reads and writes.
template <class T>
struct ForwardOperands {
  Geometry part;
  SequenceRows<T> q, k, v;
  Target<T> o;
  SequenceRows<Wide<T>> lse;  // may have no data
  bool merged = false;        // o and lse hold earlier parts
};

// Everything that backward reads and writes.
template <class T>
struct BackwardOperands {
  Geometry part;
  SequenceRows<T> d_o, q, k, v, o;
  SequenceRows<Wide<T>> lse, delta;  // delta = row sums of do * o
  Target<T> dq, dk, dv;
};

// Implementations; T is an element type of base/dtype.hpp, B the number of sequences.
template <class T>
void forward_generic(Stream& stream, std::int64_t B,
                     const ForwardOperands<DeviceType<T>>& x);
template <class T>
void backward_generic(Stream& stream, std::int64_t B,
                      const BackwardOperands<DeviceType<T>>& x);
// T: BFloat16 or Float16. Rows are packed and the width is 32, 64, 96 or 128.
template <class T>
void forward_tensor_core(Stream& stream, std::int64_t B,
                         const ForwardOperands<DeviceType<T>>& x);
template <class T>
void backward_tensor_core(Stream& stream, std::int64_t B,
                          const BackwardOperands<DeviceType<T>>& x);

}  // namespace trireme::kernels::cuda
