// What the kernels of paged attention share: who does what, and where results go.
// SPDX-License-Identifier: Apache-2.0
// A block does up to 16 pairs of a row and one of the query heads that share a key/value
// head, at the positions of one chunk of their text. Chunks begin at multiples of 512
// positions: what they come to is merged in their order, whatever else is in the launch.
#pragma once

#include "kernels/cuda/attention/operands.cuh"
#include "kernels/cuda/attention/paged.hpp"

namespace trireme::kernels::cuda::paged {

// Of a row, as pack_texts() writes it: its text's rows [begin, end) and positions before
// them, and where the table of its blocks begins.
struct alignas(16) TextOfRow {
  std::int32_t begin, end, past, table;
};

// Rows of K elements of a head, a position each: numbers, or codes and their scales.
struct Cache {
  const void* data;
  const float* scales;
  DType type;
};

// The row of a position and a head in a cache of G heads and blocks of L positions.
__device__ inline std::int64_t place_of(const std::int32_t* blocks, int position,
                                        int head, int G, int L) {
  return (std::int64_t{blocks[position / L]} * G + head) * L + position % L;
}

// Legend as in kernels/paged_attention.hpp; L positions of a block.
template <class T>
struct Operands {
  SequenceRows<const T> q;
  SequenceRows<T> o;
  SequenceRows<Wide<T>> lse;
  Cache keys, values;
  const std::int32_t* packed;
  const std::int32_t* first;  // of row 0; nullptr: all rows see all positions
  int width, heads, kv_heads, L;
  double factor, cap;  // as in Geometry
  int first_row;       // of this launch
  int chunks;          // of the longest text of this launch
  Wide<T>* parts;      // [rows, H, chunks, K + 2]; nullptr where there is one chunk
  std::int16_t first_head[Geometry::most_heads + 1];  // of each key/value head

  __device__ const TextOfRow& text(int row) const {
    return reinterpret_cast<const TextOfRow*>(packed)[row];
  }
  __device__ int first_of(int row) const { return first == nullptr ? 0 : first[row]; }
  // What a chunk came to of a row and a head: sums [K], their maximum, their weight.
  __device__ Wide<T>* part(int row, int head, int at) const {
    return parts +
           ((std::int64_t{row - first_row} * heads + head) * chunks + at) * (width + 2);
  }
  // Puts what pairs came to: `sum` of exp2(score - most) and weighted values `at(c)`, for
  // columns first, first + step...
  template <class At>
  __device__ void put(int row, int head, int in_chunk, Wide<T> most, Wide<T> sum,
                      int first_column, int step, const At& at) const {
    if (parts != nullptr) {
      Wide<T>* const to = part(row, head, in_chunk);
      for (int c = first_column; c < width; c += step) to[c] = at(c);
      if (first_column == 0) {
        to[width] = most;
        to[width + 1] = sum;
      }
      return;
    }
    for (int c = first_column; c < width; c += step)
      *o.at(0, row, std::int64_t{head} * width + c) = narrow<T>(at(c) / sum);
    if (first_column == 0)
      *lse.at(0, row, head) = most * static_cast<Wide<T>>(ln_2) + log(sum);
  }
};

// The pairs of this block, and the positions [begin, end) that it looks at.
struct Task {
  int row = 0, head = 0, kv_head = 0;  // of the first pair
  int count = 0, heads = 1;            // pairs; heads of a row
  int in_chunk = 0, begin = 0, end = 0;
  int past = 0;  // position of row 0, were it of this text
  const std::int32_t* blocks = nullptr;

  // Empty where another block does this row, and where nothing is seen here.
  template <class T>
  __device__ explicit Task(const Operands<T>& x) {
    row = x.first_row + static_cast<int>(blockIdx.x);
    kv_head = static_cast<int>(blockIdx.y) % x.kv_heads;
    const int of_group = x.first_head[kv_head + 1] - x.first_head[kv_head];
    const int before = static_cast<int>(blockIdx.y) / x.kv_heads * pairs;
    in_chunk = static_cast<int>(blockIdx.z);
    if (before >= of_group) return;
    head = x.first_head[kv_head] + before;
    heads = min(pairs, of_group - before);
    int rows = 1;  // of a block: a power of two
    while (2 * rows * of_group <= pairs) rows *= 2;
    const TextOfRow text = x.text(row);
    if ((row - text.begin) % rows != 0) return;
    rows = min(rows, text.end - row);
    past = text.past - text.begin;
    blocks = x.packed + text.table;
    int first = x.first_of(row);
    for (int i = 1; i < rows; ++i) first = min(first, x.first_of(row + i));
    begin = max(first, in_chunk * chunk);
    end = min(past + row + rows, (in_chunk + 1) * chunk);
    if (begin < end) count = rows * heads;
  }
  __device__ bool empty() const { return count == 0; }
  __device__ int row_of(int pair) const { return row + pair / heads; }
  __device__ int head_of(int pair) const { return head + pair % heads; }
  template <class T>
  __device__ std::int64_t place(int position, const Operands<T>& x) const {
    return place_of(blocks, position, kv_head, x.kv_heads, x.L);
  }
};

// bf16 and fp16, of the same type in the cache; widths 32, 64, 96 and 128, rows of 16
// bytes, no cap, scale above 0.
template <class T>
void attend_tensor_core(Stream& stream, const dim3& blocks,
                        const Operands<DeviceType<T>>& x);

}  // namespace trireme::kernels::cuda::paged
