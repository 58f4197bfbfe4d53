// FP8 quantization on a GPU.
// SPDX-License-Identifier: Apache-2.0
// A thread moves `group` neighbouring elements in one access where they are aligned.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/low_precision/fp8_codes.cuh"
#include "kernels/cuda/low_precision/loss_counts.cuh"
#include "kernels/quantize.hpp"

namespace trireme::kernels::cuda {

decltype(kernels::quantize_and_transpose) quantize_and_transpose;

namespace {

constexpr int threads_per_block = 256;
constexpr int warps_per_block = threads_per_block / warp_size;

// Elements that one thread handles: 4 make a block of 128 a warp's.
constexpr int group = 4;

// What kernels take of a matrix. packed: a group that begins at a multiple of `group` can
// be moved at once.
template <class T>
struct MatrixOf {
  T* data;
  std::int64_t rows, columns, stride;
  bool packed;
};

// As it is, row by row, for kernels to which rows matter.
template <class T>
MatrixOf<T> rows_as_given(const TensorView& x, T* data) {
  const auto start = reinterpret_cast<std::uintptr_t>(data);
  const bool packed = start % alignof(Group<T, group>) == 0 && x.stride(0) % group == 0;
  return {data, x.dim(0), x.dim(1), x.stride(0), packed};
}

template <class T>
__device__ Group<std::remove_const_t<T>, group> load_at(const MatrixOf<T>& m,
                                                        std::int64_t row,
                                                        std::int64_t column) {
  const T* from = m.data + row * m.stride + column;
  if (m.packed && column + group <= m.columns)
    return *reinterpret_cast<const Group<std::remove_const_t<T>, group>*>(from);
  Group<std::remove_const_t<T>, group> result{};
  for (int i = 0; i < group; ++i)
    if (column + i < m.columns) result.x[i] = from[i];
  return result;
}

template <class T>
__device__ void store_at(const MatrixOf<T>& m, std::int64_t row, std::int64_t column,
                         const Group<T, group>& values) {
  T* to = m.data + row * m.stride + column;
  if (m.packed && column + group <= m.columns) {
    store_group(to, values);
    return;
  }
  for (int i = 0; i < group; ++i)
    if (column + i < m.columns) to[i] = values.x[i];
}

template <class T>
__device__ Group<unsigned char, group> encoded(const Group<T, group>& values,
                                               Wide<T> inverse, Fp8Format format) {
  Group<unsigned char, group> codes;
  encode(values.x, inverse, format, codes.x);
  return codes;
}

__global__ void zero_kernel(float* one) { *one = 0; }

// Blocks of one dimension: along a row in x, rows in y.
template <int W, class T>
__global__ void amax_kernel(Rows<T> x, Area area, unsigned* bits_of_amax) {
  const std::int64_t groups = area.width / W;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  unsigned most = 0;
  for (std::int64_t row = blockIdx.y; row < area.rows; row += gridDim.y) {
#pragma unroll 4
    for (std::int64_t g = first; g < groups; g += step)
      most = max(most, magnitude(load_group<W>(x[row] + g * W).x));
    for (std::int64_t c = groups * W + first; c < area.width; c += step)
      most = max(most, magnitude(load_group<1>(x[row] + c).x));
  }
  most = block_max(most);
  if (threadIdx.x == 0) atomicMax(bits_of_amax, most);
}

__global__ void scale_kernel(const float* amax, Fp8Format format, ScaleSteps steps,
                             float* scale) {
  *scale = fp8_scale(*amax, format, steps);
}

// A warp for each 128 elements of a row; blocks of a row's neighbours side by side, so
// that the scales of one block of columns are written together.
template <class T>
__global__ void quantize_rows_kernel(MatrixOf<const T> x, MatrixOf<unsigned char> codes,
                                     Fp8Format format, float* scales) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t blocks = (x.columns + fp8_block - 1) / fp8_block;
  for (std::int64_t i = std::int64_t{blockIdx.x} * warps_per_block + warp;
       i < blocks * x.rows; i += std::int64_t{gridDim.x} * warps_per_block) {
    const std::int64_t row = i / blocks, block = i % blocks;
    const std::int64_t column = block * fp8_block + lane * group;
    Group<T, group> values{};
    if (column < x.columns) values = load_at(x, row, column);
    const float scale = fp8_scale(__uint_as_float(warp_max(magnitude(values.x))), format);
    if (lane == 0) scales[block * x.rows + row] = scale;
    if (column >= x.columns) continue;
    const Wide<T> inverse = Wide<T>(1) / static_cast<Wide<T>>(scale);
    store_at(codes, row, column, encoded(values, inverse, format));
  }
}

// A block of threads for each 128 x 128 block: it reads it twice, the second time from a
// cache.
template <class T>
__global__ void quantize_block_kernel(MatrixOf<const T> x, MatrixOf<unsigned char> codes,
                                      Fp8Format format, ScaleSteps steps, float* scales,
                                      std::int64_t scale_stride) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t first = std::int64_t{blockIdx.y} * fp8_block;
  const std::int64_t end = min(first + fp8_block, x.rows);
  const std::int64_t column = std::int64_t{blockIdx.x} * fp8_block + lane * group;
  float* const scale_of_block = scales + blockIdx.y * scale_stride + blockIdx.x;
  if (std::int64_t{blockIdx.x} * fp8_block >= x.columns) {  // padding
    if (threadIdx.x == 0) *scale_of_block = 0;
    return;
  }
  unsigned most = 0;
  for (std::int64_t row = first + warp; row < end; row += warps_per_block)
    if (column < x.columns) most = max(most, magnitude(load_at(x, row, column).x));
  const float scale = fp8_scale(__uint_as_float(block_max(most)), format, steps);
  if (threadIdx.x == 0) *scale_of_block = scale;
  const Wide<T> inverse = Wide<T>(1) / static_cast<Wide<T>>(scale);
  for (std::int64_t row = first + warp; row < end; row += warps_per_block) {
    if (column >= x.columns) continue;
    store_at(codes, row, column, encoded(load_at(x, row, column), inverse, format));
  }
}

template <class T>
__global__ void count_losses_kernel(MatrixOf<const T> x,
                                    MatrixOf<const unsigned char> codes, Fp8Format format,
                                    Fp8Scaling scaling, const float* scales,
                                    double* counts, unsigned* bits_of_scale) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  LossCounts lost;
  unsigned most = 0;  // scales are above 0: their bits are ordered as they are
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < x.rows * x.columns; i += step) {
    const std::int64_t row = i / x.columns, column = i % x.columns;
    const float of_block = scales[fp8_scale_at(scaling, x.rows, x.columns, row, column)];
    const auto scale = static_cast<Wide<T>>(of_block);
    const Wide<T> value = widen(x.data[row * x.stride + column]);
    if (value != Wide<T>(0)) most = max(most, __float_as_uint(of_block));
    const unsigned code = codes.data[row * codes.stride + column];
    lost.note(fp8_saturates(value * (Wide<T>(1) / scale), format),
              value != Wide<T>(0) && (code & 0x7fu) == 0);
  }
  add_losses(lost, counts);
  most = block_max(most);
  if (threadIdx.x == 0 && most > 0) atomicMax(bits_of_scale, most);
}

template <class T>
__global__ void dequantize_kernel(MatrixOf<const unsigned char> codes, MatrixOf<T> y,
                                  Fp8Format format, Fp8Scaling scaling,
                                  const float* scales) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t per_row = (y.columns + group - 1) / group;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < y.rows * per_row; i += step) {
    const std::int64_t row = i / per_row, column = i % per_row * group;
    // A group never crosses a block: both begin at multiples of 4.
    const auto scale = static_cast<Wide<T>>(
        scales[fp8_scale_at(scaling, y.rows, y.columns, row, column)]);
    const auto from = load_at(codes, row, column);
    Group<T, group> values;
    for (int j = 0; j < group; ++j) {
      const __half decoded(__nv_cvt_fp8_to_halfraw(from.x[j], kind_of(format)));
      values.x[j] = narrow<T>(static_cast<Wide<T>>(__half2float(decoded)) * scale);
    }
    store_at(y, row, column, values);
  }
}

Grid striding_grid(const Stream& stream, std::int64_t rows, std::int64_t columns) {
  Grid grid;
  const std::int64_t groups = rows * ((columns + group - 1) / group);
  grid.blocks.x = striding_blocks(stream, groups, threads_per_block);
  grid.threads.x = threads_per_block;
  return grid;
}

void take_amax(Stream& stream, const TensorView& x, const TensorView& amax_1,
               bool so_far) {
  float* const result = amax_1.data<float>();
  if (!so_far) launch(stream, Grid{}, &zero_kernel, result);
  if (x.elements() == 0) return;
  const Area area = area_of({&x});
  visit_floating(x.dtype(), [&]<class T>(T) {
    using D = DeviceType<T>;
    const bool aligned = starts_are_aligned({&x}, area);
    const std::int64_t W = aligned ? pack_elements<D> : 1;
    constexpr std::int64_t most_in_y = 4096;
    Grid grid;
    grid.threads.x = threads_per_block;
    grid.blocks.y = extent(std::min(area.rows, most_in_y));
    grid.blocks.x = striding_blocks(stream, divide_up(area.width, W), threads_per_block);
    launch(stream, grid, aligned ? amax_kernel<pack_elements<D>, D> : amax_kernel<1, D>,
           rows_of<T>(x), area, reinterpret_cast<unsigned*>(result));
  });
}

}  // namespace

void amax(Stream& stream, const TensorView& x, const TensorView& amax_1) {
  take_amax(stream, x, amax_1, false);
}

void amax_so_far(Stream& stream, const TensorView& x, const TensorView& amax_1) {
  take_amax(stream, x, amax_1, true);
}

void scale_of_amax(Stream& stream, const TensorView& amax_1, Fp8Format format,
                   const TensorView& scale_1, ScaleSteps steps) {
  launch(stream, Grid{}, &scale_kernel, amax_1.data<float>(), format, steps,
         scale_1.data<float>());
}

void quantize(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y) {
  const std::int64_t M = x_MK.dim(0), K = x_MK.dim(1);
  if (M == 0 || K == 0) return;
  float* const scales = y.scales.data<float>();
  auto* const codes = static_cast<unsigned char*>(y.codes.raw());
  visit_floating(x_MK.dtype(), [&]<class T>(T) {
    using D = DeviceType<T>;
    const auto from = rows_as_given<const D>(x_MK, elements_of<T>(x_MK));
    const auto to = rows_as_given<unsigned char>(y.codes, codes);
    Grid grid = striding_grid(stream, M, K);
    switch (y.scaling) {
      case Fp8Scaling::tensor:
        return cuda::quantize_and_transpose(stream, x_MK, y, {}, {});
      case Fp8Scaling::row_128:
        grid.blocks.x = striding_blocks(stream, M * y.scales.dim(0), warps_per_block);
        return launch(stream, grid, &quantize_rows_kernel<D>, from, to, y.format, scales);
      case Fp8Scaling::block_128:
        grid.blocks = dim3(extent(y.scales.dim(1)), extent(y.scales.dim(0)));
        return launch(stream, grid, &quantize_block_kernel<D>, from, to, y.format,
                      y.steps, scales, y.scales.dim(1));
      case Fp8Scaling::row_32: break;  // refused by the caller
    }
  });
}

void count_losses(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y,
                  const TensorView& counts_2, const TensorView& scale_1) {
  const std::int64_t M = x_MK.dim(0), K = x_MK.dim(1);
  if (M == 0 || K == 0) return;
  const auto codes = rows_as_given<const unsigned char>(
      y.codes, static_cast<const unsigned char*>(y.codes.raw()));
  visit_floating(x_MK.dtype(), [&]<class T>(T) {
    using D = DeviceType<T>;
    launch(stream, striding_grid(stream, M, K), &count_losses_kernel<D>,
           rows_as_given<const D>(x_MK, elements_of<T>(x_MK)), codes, y.format, y.scaling,
           y.scales.data<float>(), counts_2.data<double>(),
           reinterpret_cast<unsigned*>(scale_1.data<float>()));
  });
}

void dequantize(Stream& stream, const Fp8Matrix& x, const TensorView& y_MK) {
  const std::int64_t M = y_MK.dim(0), K = y_MK.dim(1);
  if (M == 0 || K == 0) return;
  const auto codes = rows_as_given<const unsigned char>(
      x.codes, static_cast<const unsigned char*>(x.codes.raw()));
  visit_floating(y_MK.dtype(), [&]<class T>(T) {
    using D = DeviceType<T>;
    launch(stream, striding_grid(stream, M, K), &dequantize_kernel<D>, codes,
           rows_as_given<D>(y_MK, elements_of<T>(y_MK)), x.format, x.scaling,
           x.scales.data<float>());
  });
}

}  // namespace trireme::kernels::cuda
