// Sums over all elements and over rows on a GPU, in orders that depend on shapes alone.
// SPDX-License-Identifier: Apache-2.0
// Partial sums are left in the workspace and then added.
#include "base/device_memory.hpp"
#include "kernels/cuda/common/column_sums.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/elementwise/demand.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int block_threads = 256;
// Partial sums of a reduction to one number, at most: 1024 threads add them up.
constexpr std::int64_t most_partial_sums = 1024;

struct Value {
  __device__ static double of(double v) { return v; }
};
struct Square {
  __device__ static double of(double v) { return v * v; }
};
// v - v is 0 for finite v, else NaN.
struct NotFinite {
  __device__ static double of(double v) { return v - v == 0.0 ? 0.0 : 1.0; }
};

// W elements that may lie anywhere: sums keep the order of the aligned case.
template <bool aligned, int W, class T>
__device__ inline Group<T, W> load_terms(const T* from) {
  if constexpr (aligned) {
    return load_group<W>(from);
  } else {
    Group<T, W> group;
#pragma unroll
    for (int i = 0; i < W; ++i) group.x[i] = from[i];
    return group;
  }
}

// partial[block] = sum of Term over the elements of this block's groups, in double: the
// gradient's norm has millions of terms. Memory is slower than the conversions.
template <class Term, bool aligned, class T>
__global__ void partial_sums(const T* x, std::int64_t n, double* partial) {
  constexpr int W = pack_elements<T>;
  const std::int64_t groups = n / W;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t g = first; g < groups; g += step) {
    const auto group = load_terms<aligned, W>(x + g * W);
#pragma unroll
    for (int i = 0; i < W; ++i) sum += Term::of(static_cast<double>(widen(group.x[i])));
  }
  for (std::int64_t i = groups * W + first; i < n; i += step)
    sum += Term::of(static_cast<double>(widen(x[i])));
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block: out = or += the sum of the partial sums.
template <bool add>
__global__ void sum_partial_sums(const double* partial, int count, double* out) {
  const int i = static_cast<int>(threadIdx.x);
  const double sum = block_sum(i < count ? partial[i] : 0.0);
  if (i == 0) *out = add ? *out + sum : sum;
}

// Partial sums of n elements: a function of n alone, several groups to each thread.
template <class T>
std::int64_t partial_sums_of(std::int64_t n) {
  return std::clamp<std::int64_t>(
      n / (block_threads * pack_elements<T> * std::int64_t{4}), 1, most_partial_sums);
}

// Queues *out = or += sum of Term over x. out == nullptr: a number in the workspace,
// which is returned.
template <class Term, bool add>
TensorView queue_sum(Stream& stream, const TensorView& x, double* out) {
  const std::int64_t n = x.elements();
  return visit_floating(x.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const std::int64_t count = partial_sums_of<T>(n);
    const TensorView partial = workspace(stream, DType::f64, {count + 1});
    double* const of_blocks = partial.data<double>();
    if (out == nullptr) out = of_blocks + count;
    const Grid grid{dim3(extent(count)), dim3(block_threads)};
    const bool aligned = starts_are_aligned({&x}, {1, n});
    launch(stream, grid,
           aligned ? partial_sums<Term, true, T> : partial_sums<Term, false, T>,
           elements_of<H>(x), n, of_blocks);
    const std::int64_t threads = divide_up(count, warp_size) * warp_size;
    launch(stream, Grid{dim3(1), dim3(extent(threads))}, sum_partial_sums<add>, of_blocks,
           static_cast<int>(count), out);
    return partial.rows(count, 1);
  });
}

// The sum, on the host. Waits for the stream.
template <class Term>
double host_sum(Stream& stream, const TensorView& x) {
  if (x.elements() == 0) return 0;
  const TensorView sum_1 = queue_sum<Term, false>(stream, x, nullptr);
  double sum = 0;
  copy_bytes(stream, sum_1, TensorView(&sum, DType::f64, {1}));
  return sum;
}

// parts[blockIdx.y] = sum over that part's rows.
template <int W, class T>
__global__ void partial_column_sums(Rows<T> x, std::int64_t T_, std::int64_t N,
                                    Wide<T>* parts_PN) {
  const std::int64_t c = (std::int64_t{blockIdx.x} * column_lanes + threadIdx.x) * W;
  const std::int64_t step = std::int64_t{gridDim.y} * row_lanes;
  Wide<T> sum[W] = {};
  if (c < N) {
#pragma unroll 4
    for (std::int64_t t = std::int64_t{blockIdx.y} * row_lanes + threadIdx.y; t < T_;
         t += step) {
      const auto group = load_group<W>(x[t] + c);
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += widen(group.x[i]);
    }
  }
  sum_over_row_lanes<W>(sum);
  if (threadIdx.y != 0 || c >= N) return;
#pragma unroll
  for (int i = 0; i < W; ++i) parts_PN[blockIdx.y * N + c + i] = sum[i];
}

// Partial rows of the column sums of T rows: about four blocks to a multiprocessor, eight
// rows or more to each thread. The order of a column's sum is that of packs also where
// rows are not aligned.
template <class D>
std::int64_t partial_rows_of(std::int64_t T, std::int64_t N) {
  const std::int64_t tiles = divide_up(N, std::int64_t{column_lanes} * pack_elements<D>);
  return std::clamp<std::int64_t>(divide_up(2 * most_partial_rows, tiles), 1,
                                  std::max<std::int64_t>(T / (row_lanes * 8), 1));
}

}  // namespace

std::int64_t column_sums_workspace(const TensorView& x_TN) {
  const std::int64_t T = x_TN.dim(0), N = x_TN.dim(1);
  if (T == 0 || N == 0) return 0;
  return visit_floating(x_TN.dtype(), [&]<class H>(H) {
    using D = DeviceType<H>;
    return partial_rows_of<D>(T, N) * N * static_cast<std::int64_t>(sizeof(Wide<D>));
  });
}

std::int64_t sum_workspace(const TensorView& x) {
  if (x.elements() == 0) return 0;
  return visit_floating(x.dtype(), [&]<class H>(H) {
    return (partial_sums_of<DeviceType<H>>(x.elements()) + 1) *
           static_cast<std::int64_t>(sizeof(double));
  });
}

void add_column_sums(Stream& stream, const TensorView& x_TN, const TensorView& sums_N) {
  const std::int64_t T = x_TN.dim(0), N = x_TN.dim(1);
  if (T == 0 || N == 0) return;
  visit_floating(x_TN.dtype(), [&]<class H>(H) {
    using D = DeviceType<H>;
    using A = Wide<D>;
    constexpr int W = pack_elements<D>;
    const bool packed = is_packed(x_TN);
    const std::int64_t tiles = divide_up(N, column_lanes * W);
    const std::int64_t P = partial_rows_of<D>(T, N);
    A* const parts_PN = workspace(stream, sums_N.dtype(), {P, N}).template data<A>();
    Grid grid;
    grid.threads = dim3(column_lanes, row_lanes);
    grid.blocks = dim3(extent(packed ? tiles : divide_up(N, column_lanes)), extent(P));
    launch(stream, grid, packed ? partial_column_sums<W, D> : partial_column_sums<1, D>,
           rows_of<H>(x_TN), T, N, parts_PN);
    launch_add_partial_rows(stream, parts_PN, P, N, elements_of<A>(sums_N));
  });
}

double sum_of_squares(Stream& stream, const TensorView& x) {
  return host_sum<Square>(stream, x);
}

bool all_finite(Stream& stream, const TensorView& x) {
  return host_sum<NotFinite>(stream, x) == 0;
}

void add_sum(Stream& stream, const TensorView& x, const TensorView& sum_1) {
  if (x.elements() > 0) queue_sum<Value, true>(stream, x, sum_1.data<double>());
}

void add_sum_of_squares(Stream& stream, const TensorView& x, const TensorView& sum_1) {
  if (x.elements() > 0) queue_sum<Square, true>(stream, x, sum_1.data<double>());
}

}  // namespace trireme::kernels::cuda
