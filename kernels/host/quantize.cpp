// FP8 quantization on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantize.hpp"

#include <array>
#include <atomic>

#include "kernels/host/loss_counts.hpp"
#include "kernels/host/rows.hpp"

namespace trireme::kernels::host {
namespace {

// Bits of |x| as a float: for numbers that are not negative they are ordered as integers,
// and NaNs are above all.
template <class T>
std::uint32_t magnitude(T x) {
  const auto bits =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<Accumulator<T>>(x)));
  return bits & 0x7fffffffu;
}

template <class T>
std::uint32_t largest(const T* x, std::int64_t n) {
  std::uint32_t most = 0;
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, magnitude(x[i]));
  return most;
}

float as_amax(std::uint32_t bits) {
  constexpr std::uint32_t infinity = 0x7f800000u, nan = 0x7fc00000u;
  return std::bit_cast<float>(bits > infinity ? nan : bits);
}

template <class T>
void encode(const T* x, std::int64_t n, float scale, Fp8Format format,
            std::uint8_t* codes) {
  using A = Accumulator<T>;
  const A inverse = A{1} / static_cast<A>(scale);
  for (std::int64_t i = 0; i < n; ++i)
    codes[i] = fp8_encode(static_cast<A>(x[i]) * inverse, format);
}

// One row of blocks: 1 or 128 rows of elements from row `first` on.
template <class T>
void quantize_blocks(const Rows<const T>& x, const Rows<std::uint8_t>& codes,
                     const Fp8Matrix& y, std::int64_t first, std::int64_t count) {
  const std::int64_t M = y.codes.dim(0), K = y.codes.dim(1);
  const bool mx = y.scaling == Fp8Scaling::row_32;
  const std::int64_t span = mx ? mx_block : fp8_block;
  auto* const scales = y.scales.data<float>();
  for (std::int64_t begin = 0; begin < K; begin += span) {
    const std::int64_t width = std::min(span, K - begin);
    std::uint32_t most = 0;
    for (std::int64_t row = first; row < first + count; ++row)
      most = std::max(most, largest(x[row] + begin, width));
    const float scale = mx ? fp8_power_scale(as_amax(most), y.format)
                           : fp8_scale(as_amax(most), y.format, y.steps);
    scales[fp8_scale_at(y.scaling, M, K, first, begin)] = scale;
    for (std::int64_t row = first; row < first + count; ++row)
      encode(x[row] + begin, width, scale, y.format, codes[row] + begin);
  }
}

void take_amax(const TensorView& x, const TensorView& amax_1, bool so_far) {
  std::atomic<std::uint32_t> most{so_far ? magnitude(*amax_1.data<float>()) : 0};
  visit_floating(x.dtype(), [&]<class T>(T) {
    const auto rows = rows_of<const T>(x);
    for_elements("amax", {&x}, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
      const std::uint32_t mine = largest(rows[r] + begin, end - begin);
      std::uint32_t seen = most.load();
      while (seen < mine && !most.compare_exchange_weak(seen, mine)) {
      }
    });
  });
  *amax_1.data<float>() = as_amax(most.load());
}

}  // namespace

void amax(Stream& /*stream*/, const TensorView& x, const TensorView& amax_1) {
  take_amax(x, amax_1, false);
}

void amax_so_far(Stream& /*stream*/, const TensorView& x, const TensorView& amax_1) {
  take_amax(x, amax_1, true);
}

void scale_of_amax(Stream& /*stream*/, const TensorView& amax_1, Fp8Format format,
                   const TensorView& scale_1, ScaleSteps steps) {
  *scale_1.data<float>() = fp8_scale(*amax_1.data<float>(), format, steps);
}

void transpose(Stream& /*stream*/, const TensorView& x_MK, const TensorView& y_KM) {
  constexpr std::int64_t tile = 64;
  const std::int64_t M = x_MK.dim(0), K = x_MK.dim(1), stride = x_MK.stride(0);
  const auto move = [&]<class Bits>(Bits) {
    const auto* const x = static_cast<const Bits*>(x_MK.raw());
    auto* const y = static_cast<Bits*>(y_KM.raw());
    for_rows("transpose", divide_up(K, tile), M * tile,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t first = 0; first < M; first += tile) {
                 const std::int64_t last = std::min(first + tile, M);
                 for (std::int64_t k = begin * tile; k < std::min(end * tile, K); ++k) {
                   for (std::int64_t m = first; m < last; ++m)
                     y[k * M + m] = x[m * stride + k];
                 }
               }
             });
  };
  switch (size_of(x_MK.dtype())) {
    case 1: return move(std::uint8_t{});
    case 2: return move(std::uint16_t{});
    case 4: return move(std::uint32_t{});
    default: return move(std::uint64_t{});
  }
}

void quantize(Stream& /*stream*/, const TensorView& x_MK, const Fp8Matrix& y) {
  const std::int64_t M = x_MK.dim(0), K = x_MK.dim(1);
  const Rows<std::uint8_t> codes{static_cast<std::uint8_t*>(y.codes.raw()),
                                 y.codes.stride(0)};
  visit_floating(x_MK.dtype(), [&]<class T>(T) {
    const auto x = rows_of<const T>(x_MK);
    if (y.scaling == Fp8Scaling::tensor) {
      const float scale = *y.scales.data<float>();
      for_rows("quantize", M, K, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
          encode(x[row], K, scale, y.format, codes[row]);
      });
      return;
    }
    const std::int64_t height = y.scaling == Fp8Scaling::block_128 ? fp8_block : 1;
    if (y.scaling == Fp8Scaling::block_128)
      std::fill_n(y.scales.data<float>(), y.scales.elements(), 0.0f);
    for_rows("quantize", divide_up(M, height), K * height,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t block = begin; block < end; ++block)
                 quantize_blocks(x, codes, y, block * height,
                                 std::min(height, M - block * height));
             });
  });
}

void quantize_and_transpose(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y,
                            const TensorView& codes_KM, const TensorView& amax_1) {
  const std::int64_t M = x_MK.dim(0), K = x_MK.dim(1);
  if (!amax_1.empty()) host::amax_so_far(stream, x_MK, amax_1);
  if (!y.codes.empty()) host::quantize(stream, x_MK, y);
  if (codes_KM.empty()) return;
  if (!y.codes.empty()) return host::transpose(stream, y.codes, codes_KM);
  // Rows of a block of columns stay in the cache while their codes are written.
  constexpr std::int64_t tile = 64;
  const float scale = *y.scales.data<float>();
  auto* const codes = static_cast<std::uint8_t*>(codes_KM.raw());
  visit_floating(x_MK.dtype(), [&]<class T>(T) {
    const auto x = rows_of<const T>(x_MK);
    for_rows("quantize", divide_up(M, tile), K * tile, [&](auto begin, auto end) {
      std::array<std::uint8_t, tile> of_row{};
      for (std::int64_t m = begin * tile; m < std::min(end * tile, M); ++m)
        for (std::int64_t first = 0; first < K; first += tile) {
          const std::int64_t count = std::min(tile, K - first);
          encode(x[m] + first, count, scale, y.format, of_row.data());
          for (std::int64_t k = 0; k < count; ++k)
            codes[(first + k) * M + m] = of_row[static_cast<std::size_t>(k)];
        }
    });
  });
}

void count_losses(Stream& /*stream*/, const TensorView& x_MK, const Fp8Matrix& y,
                  const TensorView& counts_2, const TensorView& scale_1) {
  const std::int64_t M = x_MK.dim(0), K = x_MK.dim(1);
  const Rows<const std::uint8_t> codes{static_cast<const std::uint8_t*>(y.codes.raw()),
                                       y.codes.stride(0)};
  const auto* const scales = y.scales.data<float>();
  LossCounts counts;
  std::atomic<float> largest_scale{*scale_1.data<float>()};
  visit_floating(x_MK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto x = rows_of<const T>(x_MK);
    for_rows("count losses", M, K, [&](std::int64_t begin, std::int64_t end) {
      LossCounts::Part part;
      float mine = 0;
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t j = 0; j < K; ++j) {
          const float of_block = scales[fp8_scale_at(y.scaling, M, K, row, j)];
          const A scale = of_block, value = static_cast<A>(x[row][j]);
          if (value != A{0}) mine = std::max(mine, of_block);
          part.note(fp8_saturates(value * (A{1} / scale), y.format),
                    value != A{0} && (codes[row][j] & 0x7f) == 0);
        }
      }
      counts.add(part);
      float seen = largest_scale.load();
      while (seen < mine && !largest_scale.compare_exchange_weak(seen, mine)) {
      }
    });
  });
  counts.add_to(counts_2);
  *scale_1.data<float>() = largest_scale.load();
}

void dequantize(Stream& /*stream*/, const Fp8Matrix& x, const TensorView& y_MK) {
  const std::int64_t M = y_MK.dim(0), K = y_MK.dim(1);
  const Rows<const std::uint8_t> codes{static_cast<const std::uint8_t*>(x.codes.raw()),
                                       x.codes.stride(0)};
  const auto* const scales = x.scales.data<float>();
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code)
    values[code] = fp8_decode(static_cast<std::uint8_t>(code), x.format);
  visit_floating(y_MK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto y = rows_of<T>(y_MK);
    for_rows("dequantize", M, K, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t j = 0; j < K; ++j) {
          const A scale = scales[fp8_scale_at(x.scaling, M, K, row, j)];
          y[row][j] = T(static_cast<A>(values[codes[row][j]]) * scale);
        }
      }
    });
  });
}

}  // namespace trireme::kernels::host
