// Rows of a paged cache on hosts: from numbers or codes to accumulators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
        row_(blocks.dim(2)),
        heads_(heads),
        head_(head),
        width_(blocks.dim(2) / heads) {}

  // The position's elements, as accumulators.
  void read(const std::int32_t* table, std::int64_t position, A* to) const {
    const std::int64_t place =
        table[position / positions_] * positions_ + position % positions_;
    const std::int64_t at = place * row_ + head_ * width_;
    switch (dtype_) {
      case DType::f64: return copy(reinterpret_cast<const double*>(data_) + at, to);
      case DType::f32: return copy(reinterpret_cast<const float*>(data_) + at, to);
      case DType::bf16: return copy(reinterpret_cast<const BFloat16*>(data_) + at, to);
      case DType::f16: return copy(reinterpret_cast<const Float16*>(data_) + at, to);
      default: break;
    }
    const A scale = scales_[place * heads_ + head_];
    const auto* codes = reinterpret_cast<const std::uint8_t*>(data_) + at;
    if (dtype_ == DType::e4m3) {
      const auto& numbers = e4m3_numbers();
      for (std::int64_t c = 0; c < width_; ++c) to[c] = numbers[codes[c]] * scale;
    } else {
      const auto* numbers = reinterpret_cast<const std::int8_t*>(codes);
#pragma omp simd
      for (std::int64_t c = 0; c < width_; ++c)
        to[c] = static_cast<A>(numbers[c]) * scale;
    }
  }

 private:
  template <class C>
  void copy(const C* from, A* to) const {
#pragma omp simd
    for (std::int64_t c = 0; c < width_; ++c) to[c] = static_cast<A>(load(from[c]));
  }

  DType dtype_;
  const std::byte* data_;
  const float* scales_;
  std::int64_t positions_, row_, heads_, head_, width_;
};

}  // namespace trireme::kernels::host
