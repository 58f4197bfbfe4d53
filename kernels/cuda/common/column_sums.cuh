// Sums over the rows of a matrix in two passes.
// SPDX-License-Identifier: Apache-2.0
// The first leaves partial rows in the workspace, the second adds them. T rows, N
// columns, P partial rows.
#pragma once

#include "kernels/cuda/common/rows.cuh"

namespace trireme::kernels::cuda {

// Partial rows of a sum over rows, at most: two for each multiprocessor of an H100. Not
// taken from the GPU at hand, since the order of the sum shall depend on shapes alone.
inline constexpr std::int64_t most_partial_rows = 264;

inline constexpr int column_lanes = 32, row_lanes = 8;

// sums[c] of this thread's rows, c a group of W columns, summed over the block's row
// lanes in their order. The result is whole in the threads with threadIdx.y = 0.
template <int W, class A>
__device__ inline void sum_over_row_lanes(A (&sum)[W]) {
  __shared__ A of_lanes[row_lanes][W][column_lanes];
#pragma unroll
  for (int i = 0; i < W; ++i) of_lanes[threadIdx.y][i][threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0) return;
  for (int lane = 1; lane < row_lanes; ++lane) {
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += of_lanes[lane][i][threadIdx.x];
  }
}

// sums[c] += sum over p of parts[p, c]. One block sums 32 columns; P terms in 8 strands.
template <class A>
__global__ void add_partial_rows(const A* parts_PN, std::int64_t P, std::int64_t N,
                                 A* sums_N) {
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x;
  A sum[1] = {A(0)};
  if (c < N) {
#pragma unroll 8
    for (std::int64_t p = threadIdx.y; p < P; p += row_lanes)
      sum[0] += parts_PN[p * N + c];
  }
  sum_over_row_lanes<1>(sum);
  if (threadIdx.y == 0 && c < N) sums_N[c] += sum[0];
}

// Queues the second pass.
template <class A>
void launch_add_partial_rows(Stream& stream, const A* parts_PN, std::int64_t P,
                             std::int64_t N, A* sums_N) {
  Grid grid;
  grid.threads = dim3(column_lanes, row_lanes);
  grid.blocks = dim3(extent(divide_up(N, column_lanes)));
  launch(stream, grid, add_partial_rows<A>, parts_PN, P, N, sums_N);
}

}  // namespace trireme::kernels::cuda
