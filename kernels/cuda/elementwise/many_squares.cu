// The sum of the squares of many tensors on a GPU: two launches, whatever their number.
// SPDX-License-Identifier: Apache-2.0
// A block sums elements of one tensor; its partial sum, in double, goes to the workspace.
#include <algorithm>

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/elementwise/demand.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int block_threads = 256, sum_threads = 1024;
constexpr std::int64_t block_elements = 32768;

struct Tensor {
  const void* x;
  std::int64_t n, first_block;
  bool aligned;
};

// Tensors travel as an argument of the kernel, whose arguments are at most 4096 bytes.
struct Table {
  static constexpr int most = 3840 / static_cast<int>(sizeof(Tensor));
  Tensor tensors[most] = {};
  int count = 0;

  // The last one that begins at the block or before.
  __device__ const Tensor& of_block(std::int64_t block) const {
    int i = 0;
    while (i + 1 < count && tensors[i + 1].first_block <= block) ++i;
    return tensors[i];
  }
};

// Groups keep their order where they are not aligned.
template <class T>
__device__ inline Group<T, pack_elements<T>> load_terms(const T* from, bool aligned) {
  constexpr int W = pack_elements<T>;
  if (aligned) return load_group<W>(from);
  Group<T, W> group;
#pragma unroll
  for (int i = 0; i < W; ++i) group.x[i] = from[i];
  return group;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    squares_kernel(const __grid_constant__ Table table, double* partial) {
  constexpr int W = pack_elements<T>;
  const Tensor of = table.of_block(blockIdx.x);
  const T* const x = static_cast<const T*>(of.x);
  const std::int64_t begin = (std::int64_t{blockIdx.x} - of.first_block) * block_elements;
  const std::int64_t end = min(begin + block_elements, of.n);
  const std::int64_t groups_end = end / W * W;  // begin is a multiple of W
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = begin + std::int64_t{threadIdx.x} * W; i < groups_end;
       i += block_threads * W) {
    const auto group = load_terms(x + i, of.aligned);
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const auto v = static_cast<double>(widen(group.x[j]));
      sum += v * v;
    }
  }
  for (std::int64_t i = groups_end + threadIdx.x; i < end; i += block_threads) {
    const auto v = static_cast<double>(widen(x[i]));
    sum += v * v;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block: *out += the partial sums, each thread's in their order.
__global__ void __launch_bounds__(sum_threads)
    add_partials_kernel(const double* partial, std::int64_t count, double* out) {
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < count; i += sum_threads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out += sum;
}

std::int64_t blocks_of(std::span<const TensorView> tensors) {
  std::int64_t blocks = 0;
  for (const TensorView& x : tensors) blocks += divide_up(x.elements(), block_elements);
  return blocks;
}

template <class T>
void launch_squares(Stream& stream, const Table& table, std::int64_t blocks,
                    double* partial) {
  if (table.count == 0) return;
  launch(stream, Grid{dim3(extent(blocks)), dim3(block_threads)}, squares_kernel<T>,
         table, partial);
}

// As many launches as tables are needed.
template <class H>
void partial_squares(Stream& stream, std::span<const TensorView> tensors,
                     double* partial) {
  using T = DeviceType<H>;
  Table table;
  std::int64_t blocks = 0;
  for (const TensorView& x : tensors) {
    if (x.elements() == 0) continue;
    if (table.count == Table::most) {
      launch_squares<T>(stream, table, blocks, partial);
      partial += blocks;
      blocks = 0;
      table.count = 0;
    }
    table.tensors[table.count++] = {elements_of<H>(x), x.elements(), blocks,
                                    starts_are_aligned({&x}, {1, x.elements()})};
    blocks += divide_up(x.elements(), block_elements);
  }
  launch_squares<T>(stream, table, blocks, partial);
}

}  // namespace

std::int64_t sums_workspace(std::span<const TensorView> tensors) {
  return blocks_of(tensors) * static_cast<std::int64_t>(sizeof(double));
}

void add_sums_of_squares(Stream& stream, std::span<const TensorView> tensors,
                         const TensorView& sum_1) {
  const std::int64_t blocks = blocks_of(tensors);
  if (blocks == 0) return;
  double* const partial = workspace(stream, DType::f64, {blocks}).data<double>();
  visit_floating(tensors[0].dtype(),
                 [&]<class H>(H) { partial_squares<H>(stream, tensors, partial); });
  launch(stream, Grid{dim3(1), dim3(sum_threads)}, add_partials_kernel, partial, blocks,
         sum_1.data<double>());
}

}  // namespace trireme::kernels::cuda
