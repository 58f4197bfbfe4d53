// Codes of 4 and 8 bits in blocks on a GPU: a warp for each block of numbers.
// SPDX-License-Identifier: Apache-2.0
#include "base/block_scale.hpp"
#include "base/split.hpp"
#include "kernels/block_codes.hpp"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/low_precision/dynamic_map.cuh"

namespace trireme::kernels::cuda {
namespace {

constexpr int warps = 8;

template <class T>
__device__ float as_float(T x) {
  return static_cast<float>(widen(x));
}

// The largest magnitude of a warp's block, on every lane; NaN above all, as bits are
// ordered.
template <class T>
__device__ float largest_of(const T* x, std::int64_t begin, std::int64_t end) {
  unsigned most = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += warp_size)
    most = max(most, __float_as_uint(as_float(x[i])) & 0x7fffffffu);
  return __uint_as_float(warp_max(most));
}

// Two codes a byte, or one: what Code makes for a block of threads says which number has
// which.
template <class T, class Code>
__global__ void encode_kernel(const T* x, std::int64_t n, std::int64_t block,
                              std::int64_t blocks, Code code, unsigned char* codes,
                              float* absmax) {
  const auto& encoder = code.of_block();
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.y;
  std::int64_t b = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  for (; b < blocks; b += step) {
    const std::int64_t begin = b * block, end = min(n, begin + block);
    const float most = largest_of(x, begin, end);
    const BlockScale scale = block_scale(most, end - begin == block);
    if (threadIdx.x == 0) absmax[b] = kept_absmax(scale, most);
    encoder.write(x, begin, end, scale, codes);
  }
}

struct FourBits {
  FourBitEncoder encoder;
  __device__ const FourBits& of_block() const { return *this; }
  template <class T>
  __device__ unsigned of(const T* x, std::int64_t i, std::int64_t end,
                         const BlockScale& scale) const {
    return encoder.encode(i < end ? scale.scaled(as_float(x[i])) : 0.0f);
  }
  template <class T>
  __device__ void write(const T* x, std::int64_t begin, std::int64_t end,
                        const BlockScale& scale, unsigned char* codes) const {
    for (std::int64_t i = begin + 2 * threadIdx.x; i < end; i += 2 * warp_size)
      codes[i / 2] = static_cast<unsigned char>(of(x, i, end, scale) << 4 |
                                                of(x, i + 1, end, scale));
  }
};

struct DynamicOfBlock {
  MapBounds map;
  template <class T>
  __device__ void write(const T* x, std::int64_t begin, std::int64_t end,
                        const BlockScale& scale, unsigned char* codes) const {
    for (std::int64_t i = begin + threadIdx.x; i < end; i += warp_size)
      codes[i] = static_cast<unsigned char>(map.encode(scale.scaled(as_float(x[i]))));
  }
};

struct Dynamic {
  DynamicMap map;
  __device__ DynamicOfBlock of_block() const { return {MapBounds::of_block(map)}; }
};

template <class T, class Code>
void encode(Stream& stream, const T* x, std::int64_t n, std::int64_t block,
            const Code& code, const TensorView& codes, const TensorView& absmax) {
  const std::int64_t blocks = divide_up(n, block);
  if (blocks == 0) return;
  Grid grid;
  grid.threads = dim3(warp_size, warps);
  grid.blocks.x = striding_blocks(stream, blocks, warps);
  launch(stream, grid, &encode_kernel<T, Code>, x, n, block, blocks, code,
         static_cast<unsigned char*>(codes.raw()), absmax.data<float>());
}

template <class T>
struct DecodeFourBits {
  const unsigned char* codes;
  const float* absmax;
  std::int64_t block;
  CodeBook book;
  T* y;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    const unsigned two = codes[c / 2];
    const unsigned code = c % 2 == 0 ? two >> 4 : two & 0xfu;
    const float value = book.numbers[code] * absmax[c / block];
    y[c] = narrow<T>(static_cast<Wide<T>>(value));
  }
};

struct DecodeDynamic {
  const unsigned char* codes;
  const float* absmax;
  std::int64_t block;
  float* y;
  __device__ void at(const MapNumbers& map, std::int64_t c) const {
    y[c] = map.numbers[codes[c]] * absmax[c / block];
  }
};

struct DecodeAbsmax {
  const unsigned char* codes;
  const float* nested;
  const float* offset;
  float* absmax;
  __device__ void at(const MapNumbers& map, std::int64_t c) const {
    absmax[c] = nested_absmax(map.numbers[codes[c]], nested[c / dynamic_block], *offset);
  }
};

struct Subtract {
  const float* offset;
  float* absmax;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    absmax[c] -= *offset;
  }
};

// One block of threads: the magnitudes are one for 64 weights.
__global__ void mean_kernel(const float* x, std::int64_t n, float* mean) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0)
    *mean = static_cast<float>(sum / static_cast<double>(n > 0 ? n : 1));
}

}  // namespace

void encode_four_bits(Stream& stream, const TensorView& x_N, FourBitType type,
                      std::int64_t block, const TensorView& codes,
                      const TensorView& absmax_B) {
  visit_floating(x_N.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const T* const x = elements_of<H>(x_N);
    encode(stream, x, x_N.elements(), block, FourBits{encoder_of(type)}, codes, absmax_B);
  });
}

void decode_four_bits(Stream& stream, const TensorView& codes, const TensorView& absmax_B,
                      FourBitType type, std::int64_t block, const TensorView& y_N) {
  visit_floating(y_N.dtype(), [&]<class H>(H) {
    const DecodeFourBits<DeviceType<H>> f{static_cast<const unsigned char*>(codes.raw()),
                                          absmax_B.data<float>(), block, book_of(type),
                                          elements_of<H>(y_N)};
    launch_over_rows<1>(stream, {1, y_N.elements()}, true, f);
  });
}

void encode_dynamic(Stream& stream, const TensorView& x_N, DynamicType type,
                    std::int64_t block, const TensorView& codes_N,
                    const TensorView& absmax_B) {
  const float* const x = x_N.data<float>();
  encode(stream, x, x_N.elements(), block, Dynamic{dynamic_map(type)}, codes_N, absmax_B);
}

void decode_dynamic(Stream& stream, const TensorView& codes_N, const TensorView& absmax_B,
                    DynamicType type, std::int64_t block, const TensorView& y_N) {
  const DecodeDynamic f{static_cast<const unsigned char*>(codes_N.raw()),
                        absmax_B.data<float>(), block, y_N.data<float>()};
  launch_over_codes<MapNumbers>(stream, type, y_N.elements(), f);
}

void decode_absmax(Stream& stream, const TensorView& codes_B, const TensorView& nested_C,
                   const TensorView& offset_1, const TensorView& absmax_B) {
  const DecodeAbsmax f{static_cast<const unsigned char*>(codes_B.raw()),
                       nested_C.data<float>(), offset_1.data<float>(),
                       absmax_B.data<float>()};
  launch_over_codes<MapNumbers>(stream, DynamicType::signed_numbers, absmax_B.elements(),
                                f);
}

void encode_absmax(Stream& stream, const TensorView& absmax_B, const TensorView& codes_B,
                   const TensorView& nested_C, const TensorView& offset_1) {
  Grid grid;
  grid.threads.x = 1024;
  const float* const absmax = absmax_B.data<float>();
  launch(stream, grid, &mean_kernel, absmax, absmax_B.elements(), offset_1.data<float>());
  launch_over_rows<1>(stream, {1, absmax_B.elements()}, true,
                      Subtract{offset_1.data<float>(), absmax_B.data<float>()});
  cuda::encode_dynamic(stream, absmax_B, DynamicType::signed_numbers, dynamic_block,
                       codes_B, nested_C);
  cuda::decode_absmax(stream, codes_B, nested_C, offset_1, absmax_B);
}

}  // namespace trireme::kernels::cuda
