// Rows of biases and zeros under matrix products.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/types.cuh"
#include "kernels/cuda/gemm/gemm.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int threads_per_block = 256;

template <class To, class From>
__global__ void fill_rows_kernel(const From* row, To* c, std::int64_t rows,
                                 std::int64_t columns, std::int64_t stride) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < rows * columns; i += step) {
    const std::int64_t column = i % columns;
    const auto value = row == nullptr ? Wide<From>(0) : widen(row[column]);
    c[i / columns * stride + column] = narrow<To>(value);
  }
}

}  // namespace

void fill_rows(Stream& stream, const TensorView& row_N, const TensorView& c_MN) {
  const std::int64_t M = c_MN.dim(0), N = c_MN.dim(1);
  if (M == 0 || N == 0) return;
  Grid grid;
  grid.blocks.x = striding_blocks(stream, M * N, threads_per_block);
  grid.threads.x = threads_per_block;
  const DType from = row_N.empty() ? c_MN.dtype() : row_N.dtype();
  visit_floating(c_MN.dtype(), [&]<class To>(To) {
    visit_floating(from, [&]<class From>(From) {
      launch(stream, grid, &fill_rows_kernel<DeviceType<To>, DeviceType<From>>,
             elements_of<From>(row_N), elements_of<To>(c_MN), M, N, c_MN.stride(0));
    });
  });
}

}  // namespace trireme::kernels::cuda
