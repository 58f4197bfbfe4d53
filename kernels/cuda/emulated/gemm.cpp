// Matrix products on the emulated device, where there is no cuBLASLt.
// SPDX-License-Identifier: Apache-2.0
// A thread does each element of the result and sums in the order of k.
#include "kernels/cuda/gemm/gemm.hpp"

#include <cuda_emulation/control.hpp>
#include <map>

#include "base/memory.hpp"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/types.cuh"

namespace trireme::kernels::cuda {
namespace {

constexpr int threads_per_block = 128;

// Element (i, j) at data[i * row + j * column].
template <class T>
struct Operand {
  T* data;
  std::int64_t row, column;
};

template <class T>
Operand<DeviceType<T>> operand(const TensorView& x, bool transposed = false) {
  Operand<DeviceType<T>> result{elements_of<T>(x), x.stride(0), 1};
  if (transposed) std::swap(result.row, result.column);
  return result;
}

// Blocks of threads for one row of a result of n columns.
__device__ std::int64_t blocks_of(std::int64_t n) {
  return (n + threads_per_block - 1) / threads_per_block;
}

Grid grid_of(std::int64_t m, std::int64_t n) {
  Grid grid;
  grid.blocks.x = extent(m * blocks_of(n));
  grid.threads.x = threads_per_block;
  return grid;
}

template <class T, class C>
__global__ void gemm_kernel(Operand<C> c, Operand<T> a, Operand<T> b, const T* bias,
                            std::int64_t n, std::int64_t k, bool accumulate) {
  const std::int64_t i = blockIdx.x / blocks_of(n);
  const std::int64_t j = blockIdx.x % blocks_of(n) * blockDim.x + threadIdx.x;
  if (j >= n) return;
  Wide<T> sum = 0;
  const T* left = a.data + i * a.row;
  const T* right = b.data + j * b.column;
  for (std::int64_t l = 0; l < k; ++l)
    sum += widen(left[l * a.column]) * widen(right[l * b.row]);
  C& result = c.data[i * c.row + j];
  if (bias != nullptr) sum += widen(bias[j]);
  if (accumulate) sum += widen(result);
  result = narrow<C>(sum);
}

// FP8 codes with their scales: element (row, k).
struct Fp8Operand {
  const std::uint8_t* codes;
  std::int64_t rows, depth, stride;
  const float* scales;
  Fp8Format format;
  Fp8Scaling scaling;

  explicit Fp8Operand(const Fp8Matrix& x)
      : codes(static_cast<const std::uint8_t*>(x.codes.raw())),
        rows(x.codes.dim(0)),
        depth(x.codes.dim(1)),
        stride(x.codes.stride(0)),
        scales(x.scales.data<float>()),
        format(x.format),
        scaling(x.scaling) {}
  __device__ float operator()(std::int64_t row, std::int64_t k) const {
    return fp8_decode(codes[row * stride + k], format);
  }
  __device__ float scale(std::int64_t row, std::int64_t k) const {
    return scales[fp8_scale_at(scaling, rows, depth, row, k)];
  }
};

// As the tensor core does it: codes are multiplied, sums over a block are scaled.
template <class C>
__global__ void gemm_fp8_kernel(Operand<C> c, Fp8Operand a, Fp8Operand b,
                                bool accumulate) {
  const std::int64_t i = blockIdx.x / blocks_of(b.rows);
  const std::int64_t j = blockIdx.x % blocks_of(b.rows) * blockDim.x + threadIdx.x;
  if (j >= b.rows) return;
  float sum = 0;
  for (std::int64_t begin = 0; begin < a.depth; begin += fp8_block) {
    const std::int64_t end = begin + fp8_block < a.depth ? begin + fp8_block : a.depth;
    float of_block = 0;
    for (std::int64_t l = begin; l < end; ++l) of_block += a(i, l) * b(j, l);
    sum += of_block * (a.scale(i, begin) * b.scale(j, begin));
  }
  C& result = c.data[i * c.row + j];
  if (accumulate) sum += widen(result);
  result = narrow<C>(sum);
}

// As cuBLASLt's, the buffer is made at the first product of the process and stays.
constexpr std::int64_t library_bytes = 64 << 10;
void make_library_buffer(Device device) {
  static auto& buffers = *new std::map<int, Buffer>;
  if (buffers.contains(device.index)) return;
  buffers[device.index] =
      Buffer(device, DType::u8, {library_bytes}, MemoryClass::workspace, "library");
}

// cuBLASLt has kernels for sizes and types, which it loads itself at first use.
void load(Device device, std::int64_t m, std::int64_t n, std::int64_t k, DType operands,
          DType result, bool accumulate) {
  make_library_buffer(device);
  std::uint64_t which = accumulate ? 1 : 0;
  for (const std::int64_t part :
       {m, n, k, static_cast<std::int64_t>(operands), static_cast<std::int64_t>(result)})
    which = which * 1000003u + static_cast<std::uint64_t>(part);
  cuda_emulation::load_library_kernel(which);
}

}  // namespace

void gemm(Stream& stream, const TensorView& c, const TensorView& a, Transpose transpose_a,
          const TensorView& b, Transpose transpose_b, Accumulate accumulate,
          const TensorView& bias) {
  const std::int64_t k = a.dim(transpose_a == Transpose::yes ? 0 : 1);
  load(stream.device(), c.dim(0), c.dim(1), k, a.dtype(), c.dtype(),
       accumulate == Accumulate::yes);
  visit_floating(a.dtype(), [&]<class T>(T) {
    visit_floating(c.dtype(), [&]<class C>(C) {
      launch(stream, grid_of(c.dim(0), c.dim(1)),
             &gemm_kernel<DeviceType<T>, DeviceType<C>>, operand<C>(c),
             operand<T>(a, transpose_a == Transpose::yes),
             operand<T>(b, transpose_b == Transpose::yes), elements_of<T>(bias), c.dim(1),
             k, accumulate == Accumulate::yes);
    });
  });
}

std::int64_t gemm_workspace_bytes(int /*major*/) { return library_bytes; }

bool gemm_with(Stream& /*stream*/, const TensorView& /*c*/, const TensorView& /*a*/,
               Transpose /*transpose_a*/, const TensorView& /*b*/,
               Transpose /*transpose_b*/, Accumulate /*accumulate*/,
               const GemmEpilogue& /*epilogue*/) {
  return false;
}

void gemm_fp8(Stream& stream, const TensorView& c, const Fp8Matrix& a_MK,
              const Fp8Matrix& b_NK, Accumulate accumulate, Fp8Sums /*sums*/) {
  visit_floating(c.dtype(), [&]<class C>(C) {
    launch(stream, grid_of(c.dim(0), c.dim(1)), &gemm_fp8_kernel<DeviceType<C>>,
           operand<C>(c), Fp8Operand(a_MK), Fp8Operand(b_NK),
           accumulate == Accumulate::yes);
  });
}

}  // namespace trireme::kernels::cuda
