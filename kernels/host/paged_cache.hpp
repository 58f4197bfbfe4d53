// Rows of a paged cache on hosts: from numbers or codes to accumulators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/split.hpp"
#include "base/tensor_view.hpp"
#include "kernels/fp8.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::host {

inline const std::array<float, 256>& e4m3_numbers() {
  static const std::array<float, 256> all = [] {
    std::array<float, 256> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = fp8_decode(static_cast<std::uint8_t>(i), Fp8Format::e4m3);
    return numbers;
  }();
  return all;
}

// One head's part of positions in a tensor of blocks [N, G, L, K], or [N, L, G * K]
// without scales.
template <class A>
class BlockRows {
 public:
  BlockRows(const TensorView& blocks, const TensorView& scales, std::int64_t heads,
            std::int64_t head)
      : dtype_(blocks.dtype()),
        data_(static_cast<const std::byte*>(blocks.raw())),
        scales_(scales.empty() ? nullptr : scales.data<float>()),
        apart_(blocks.shape().rank() == 4),
        positions_(blocks.dim(apart_ ? 2 : 1)),
        block_(blocks.stride(0)),
        row_(blocks.stride(apart_ ? 2 : 1)),
        heads_(heads),
        head_(head),
        width_(apart_ ? blocks.dim(3) : blocks.dim(2) / heads),
        of_head_(apart_ ? blocks.stride(1) : width_) {}

  // What is read next, and is fetched meanwhile: blocks lie anywhere, where no prefetcher
  // of the processor follows. A text's task reads positions `seen`, a tile at a time, of
  // which these are `by` ahead; behind the last one comes the next head.
  struct Next {
    const BlockRows& rows;
    std::int64_t by, tile;
    Range seen;
  };

  // The elements of positions [begin, end), as accumulators, to rows `stride` apart.
  void read(const std::int32_t* table, std::int64_t begin, std::int64_t end,
            const Next& next, A* to, std::int64_t stride) const {
    for (std::int64_t i = begin / positions_; begin < end; ++i) {
      const std::int64_t last = std::min(end, (i + 1) * positions_);
      read_run(table[i], begin - i * positions_, last - begin,
               next.rows.ahead(table, begin, next), to, stride);
      to += (last - begin) * stride;
      begin = last;
    }
  }

 private:
  // Where a head's part of a position is, in elements.
  std::int64_t place(const std::int32_t* table, std::int64_t position,
                     std::int64_t head) const {
    return table[position / positions_] * block_ + head * of_head_ +
           position % positions_ * row_;
  }
  const std::byte* ahead(const std::int32_t* table, std::int64_t position,
                         const Next& next) const {
    std::int64_t head = head_;
    position += next.by;
    if (position >= next.seen.end) {
      position = std::max(next.seen.begin / next.tile * next.tile + position % next.tile,
                          next.seen.begin);
      if (position >= next.seen.end) position = next.seen.begin;
      head = std::min(head + 1, heads_ - 1);
    }
    return data_ +
           static_cast<std::size_t>(place(table, position, head)) * size_of(dtype_);
  }

  // Positions of one block.
  void read_run(std::int64_t block, std::int64_t first, std::int64_t count,
                const std::byte* next, A* to, std::int64_t stride) const {
    const std::byte* const from =
        data_ +
        static_cast<std::size_t>(block * block_ + head_ * of_head_ + first * row_) *
            size_of(dtype_);
    const float* const scale =
        scales_ == nullptr ? nullptr
                           : scales_ + (block * heads_ + head_) * positions_ + first;
    const auto row_bytes = static_cast<std::size_t>(row_) * size_of(dtype_),
               used_bytes = static_cast<std::size_t>(width_) * size_of(dtype_);
    for (std::int64_t i = 0; i < count; ++i, to += stride) {
      const std::size_t at = static_cast<std::size_t>(i) * row_bytes;
      for (std::size_t c = 0; c < used_bytes; c += 64) __builtin_prefetch(next + at + c);
      switch (dtype_) {
        case DType::f64: copy<double>(from + at, to); break;
        case DType::f32: copy<float>(from + at, to); break;
        case DType::bf16: copy<BFloat16>(from + at, to); break;
        case DType::f16: copy<Float16>(from + at, to); break;
        default: decode(reinterpret_cast<const std::uint8_t*>(from + at), scale[i], to);
      }
    }
  }

  template <class C>
  void copy(const std::byte* row, A* to) const {
    const auto* const from = reinterpret_cast<const C*>(row);
#pragma omp simd
    for (std::int64_t c = 0; c < width_; ++c) to[c] = static_cast<A>(load(from[c]));
  }

  void decode(const std::uint8_t* codes, A scale, A* to) const {
    if (dtype_ == DType::e4m3) {
      const auto& numbers = e4m3_numbers();
      for (std::int64_t c = 0; c < width_; ++c) to[c] = numbers[codes[c]] * scale;
      return;
    }
    const auto* numbers = reinterpret_cast<const std::int8_t*>(codes);
#pragma omp simd
    for (std::int64_t c = 0; c < width_; ++c) to[c] = static_cast<A>(numbers[c]) * scale;
  }

  DType dtype_;
  const std::byte* data_;
  const float* scales_;
  bool apart_;  // heads
  std::int64_t positions_, block_, row_, heads_, head_, width_, of_head_;
};

}  // namespace trireme::kernels::host
