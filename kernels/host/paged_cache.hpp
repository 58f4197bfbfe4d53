// Rows of a paged cache on hosts: from numbers or codes to accumulators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

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

// One head's part of positions in a tensor of blocks [N, L, G * K].
template <class A>
class BlockRows {
 public:
  BlockRows(const TensorView& blocks, const TensorView& scales, std::int64_t heads,
            std::int64_t head)
      : dtype_(blocks.dtype()),
        data_(static_cast<const std::byte*>(blocks.raw())),
        scales_(scales.empty() ? nullptr : scales.data<float>()),
        positions_(blocks.dim(1)),
        block_(blocks.stride(0)),
        row_(blocks.stride(1)),
        heads_(heads),
        head_(head),
        width_(blocks.dim(2) / heads) {}

  // The elements of positions [begin, end), as accumulators, to rows `stride` apart.
  void read(const std::int32_t* table, std::int64_t begin, std::int64_t end, A* to,
            std::int64_t stride) const {
    for (std::int64_t i = begin / positions_; begin < end; ++i) {
      const std::int64_t last = std::min(end, (i + 1) * positions_);
      const std::int64_t of_block = begin - i * positions_;
      read_run(table[i], of_block, last - begin, to, stride);
      to += (last - begin) * stride;
      begin = last;
    }
  }

 private:
  // Positions of one block.
  void read_run(std::int64_t block, std::int64_t first, std::int64_t count, A* to,
                std::int64_t stride) const {
    const std::int64_t at = block * block_ + first * row_ + head_ * width_;
    switch (dtype_) {
      case DType::f64:
        return copy(reinterpret_cast<const double*>(data_) + at, count, to, stride);
      case DType::f32:
        return copy(reinterpret_cast<const float*>(data_) + at, count, to, stride);
      case DType::bf16:
        return copy(reinterpret_cast<const BFloat16*>(data_) + at, count, to, stride);
      case DType::f16:
        return copy(reinterpret_cast<const Float16*>(data_) + at, count, to, stride);
      default: break;
    }
    const auto* codes = reinterpret_cast<const std::uint8_t*>(data_) + at;
    const float* scale = scales_ + (block * positions_ + first) * heads_ + head_;
    for (; count > 0; --count, codes += row_, scale += heads_, to += stride)
      decode(codes, *scale, to);
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

  template <class C>
  void copy(const C* from, std::int64_t count, A* to, std::int64_t stride) const {
    // One head's parts of rows lie apart, where no hardware prefetcher follows.
    constexpr std::int64_t rows_ahead = 16, line = 64 / sizeof(C);
    for (; count > 0; --count, from += row_, to += stride) {
      for (std::int64_t c = 0; c < width_; c += line)
        __builtin_prefetch(from + rows_ahead * row_ + c);
#pragma omp simd
      for (std::int64_t c = 0; c < width_; ++c) to[c] = static_cast<A>(load(from[c]));
    }
  }

  DType dtype_;
  const std::byte* data_;
  const float* scales_;
  std::int64_t positions_, block_, row_, heads_, head_, width_;
};

}  // namespace trireme::kernels::host
