// Cross-entropy on a GPU: one read of the logits for statistics, one for the gradient.
// SPDX-License-Identifier: Apache-2.0
// C rows of the chunk, V columns on this rank, R ranks; logits of type L, their
// statistics of A, gradients of G.
#include <algorithm>
#include <limits>

#include "kernels/cross_entropy.hpp"
#include "kernels/cuda/common/cuts.cuh"
#include "kernels/cuda/common/math.cuh"
#include "kernels/math/softmax.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int most_threads = 512;

// The maximum of some logits, never NaN, and the sum of exp(logit - maximum).
template <class A>
struct Running {
  A maximum = -std::numeric_limits<A>::infinity();
  A sum = 0;

  // The online softmax: when logits raise the maximum, the sum so far is rescaled.
  // Source: Milakov and Gimelshein, 2018, algorithm 3.
  template <int n>
  __device__ void add(const A (&x)[n]) {
    A most = maximum;
#pragma unroll
    for (int i = 0; i < n; ++i) most = x[i] > most ? x[i] : most;
    if (most > maximum) {
      sum *= exponential(maximum - most);
      maximum = most;
    }
    const A reference = math::exponent_reference(most);
    A more = 0;
#pragma unroll
    for (int i = 0; i < n; ++i) more += exponential(x[i] - reference);
    sum += more;
  }
  __device__ void add(A x) {
    const A one[1] = {x};
    add(one);
  }
};

// This thread's share of a row.
template <class L>
__device__ inline Running<Wide<L>> share_of_row(const L* logits, std::int64_t V) {
  using A = Wide<L>;
  constexpr int n = pack_elements<L>, at_once = 4;
  const Cut cut = cut_run<n>(V, logits);
  Running<A> share;
  for (std::int64_t v = threadIdx.x; v < cut.head; v += blockDim.x)
    share.add(widen(logits[v]));
  const L* const packs = logits + cut.head;
  const std::int64_t stride = blockDim.x;
  std::int64_t g = threadIdx.x;
  for (; g + (at_once - 1) * stride < cut.groups; g += at_once * stride) {
    A x[at_once * n];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      const auto pack = load_pack(packs + (g + j * stride) * n);
#pragma unroll
      for (int i = 0; i < n; ++i) x[j * n + i] = widen(pack.x[i]);
    }
    share.add(x);
  }
  for (; g < cut.groups; g += stride) {
    const auto pack = load_pack(packs + g * n);
    A x[n];
#pragma unroll
    for (int i = 0; i < n; ++i) x[i] = widen(pack.x[i]);
    share.add(x);
  }
  for (std::int64_t v = cut.head + cut.groups * n + threadIdx.x; v < V; v += stride)
    share.add(widen(logits[v]));
  return share;
}

// A block for each row.
template <class L>
__global__ void __launch_bounds__(most_threads)
    statistics_kernel(Rows<L> logits, std::int64_t V, const std::int32_t* targets,
                      std::int64_t first, Rows<Wide<L>> stats) {
  using A = Wide<L>;
  const std::int64_t c = blockIdx.x;
  const L* const row = logits[c];
  const Running<A> share = share_of_row<L>(row, V);
  const A maximum = block_max(share.maximum);
  const A rescaled =
      share.sum * exponential(share.maximum - math::exponent_reference(maximum));
  const double sum = block_sum(static_cast<double>(rescaled));
  if (threadIdx.x != 0) return;
  const std::int64_t target = targets[c] - first;
  const bool here = target >= 0 && target < V;  // ignored ones are below 0
  A* const to = stats[c];
  to[0] = maximum;
  to[1] = static_cast<A>(sum);
  to[2] = here ? widen(row[target]) : A(0);
}

// The row that a thread of a grid of rows has.
__device__ inline std::int64_t row_of_thread() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

template <class A>
__global__ void combine_kernel(const A* parts, std::int64_t R, std::int64_t C,
                               Rows<A> stats) {
  const std::int64_t c = row_of_thread();
  if (c >= C) return;
  A maximum = -std::numeric_limits<A>::infinity();
  for (std::int64_t r = 0; r < R; ++r) {
    const A other = parts[(r * C + c) * 3];
    maximum = other > maximum ? other : maximum;
  }
  const double reference = math::exponent_reference(maximum);
  double sum = 0, target = 0;
  for (std::int64_t r = 0; r < R; ++r) {
    const A* const part = parts + (r * C + c) * 3;
    sum += static_cast<double>(part[1]) *
           exponential(static_cast<double>(part[0]) - reference);
    target += static_cast<double>(part[2]);
  }
  A* const to = stats[c];
  to[0] = maximum;
  to[1] = static_cast<A>(sum);
  to[2] = static_cast<A>(target);
}

template <class A>
__global__ void loss_kernel(Rows<A> stats, std::int64_t C, const std::int32_t* targets,
                            double z_loss, A* loss) {
  const std::int64_t c = row_of_thread();
  if (c >= C) return;
  const A* const of = stats[c];
  const double value = math::token_loss(of[0], of[1], of[2], z_loss);
  loss[c] = targets[c] < 0 ? A(0) : static_cast<A>(value);
}

// The gradient of a logit: factor * exp(logit - reference), less `scale` at the target.
template <class L>
struct GradientOfLogit {
  using A = Wide<L>;
  A factor, reference, scale;
  std::int64_t target;  // column

  __device__ A operator()(std::int64_t column, L logit) const {
    const A p = math::scaled_exponential<DeviceMath<L>>(factor, widen(logit), reference);
    return column == target ? p - scale : p;
  }
};

// LossScale on the device.
struct Scale {
  const double* memory;
  double value;
  const double* factors;
  __device__ double operator()(std::int64_t row) const {
    const double scale = memory == nullptr ? value : *memory;
    return factors == nullptr ? scale : scale * factors[row];
  }
};

// Columns [0, n) of a part of a row, by the threads of a block.
template <class L, class G, class F>
__device__ inline void write_gradient(const L* logits, std::int64_t n, const F& gradient,
                                      G* dlogits) {
  // As many as make whole accesses of both: where those of the narrower type begin, those
  // of the wider one do too, if rows begin alike.
  constexpr int width = std::max(pack_elements<L>, pack_elements<G>);
  const Cut cut = cut_run<width>(n, dlogits, logits);
  const auto single = [&](std::int64_t v) {
    dlogits[v] = narrow<G>(gradient(v, logits[v]));
  };
  for (std::int64_t v = threadIdx.x; v < cut.head; v += blockDim.x) single(v);
#pragma unroll 2
  for (std::int64_t g = threadIdx.x; g < cut.groups; g += blockDim.x) {
    const std::int64_t v = cut.head + g * width;
    const auto x = load_group<width>(logits + v);
    Group<G, width> y;
#pragma unroll
    for (int i = 0; i < width; ++i) y.x[i] = narrow<G>(gradient(v + i, x.x[i]));
    store_group(dlogits + v, y);
  }
  for (std::int64_t v = cut.head + cut.groups * width + threadIdx.x; v < n;
       v += blockDim.x)
    single(v);
}

template <class G>
__device__ inline void write_zeros(std::int64_t n, G* dlogits) {
  constexpr int width = pack_elements<G>;
  const Cut cut = cut_run<width>(n, dlogits);
  const G zero = narrow<G>(0.0f);
  Pack<G> zeros;
#pragma unroll
  for (int i = 0; i < width; ++i) zeros.x[i] = zero;
  for (std::int64_t v = threadIdx.x; v < cut.head; v += blockDim.x) dlogits[v] = zero;
  for (std::int64_t g = threadIdx.x; g < cut.groups; g += blockDim.x)
    store_pack(dlogits + cut.head + g * width, zeros);
  for (std::int64_t v = cut.head + cut.groups * width + threadIdx.x; v < n;
       v += blockDim.x)
    dlogits[v] = zero;
}

// Block (c, p): columns [p part, (p + 1) part) of row c.
template <class L, class G>
__global__ void __launch_bounds__(most_threads)
    gradient_kernel(Rows<L> logits, std::int64_t V, std::int64_t part,
                    Rows<Wide<L>> stats, const std::int32_t* targets, std::int64_t first,
                    Scale loss_scale, double z_loss, Rows<G> dlogits) {
  const std::int64_t c = blockIdx.x, begin = part * blockIdx.y;
  const std::int64_t n = V - begin < part ? V - begin : part;
  if (targets[c] < 0) {
    write_zeros(n, dlogits[c] + begin);
    return;
  }
  const double scale = loss_scale(c);
  // One thread computes in double: a GPU may have few units for it.
  using A = Wide<L>;
  __shared__ A factor;
  const A* const of_row = stats[c];
  if (threadIdx.x == 0)
    factor = math::gradient_factor(of_row[0], of_row[1], scale, z_loss);
  __syncthreads();
  const GradientOfLogit<L> gradient{factor, math::exponent_reference(of_row[0]),
                                    static_cast<A>(scale), targets[c] - first - begin};
  write_gradient(logits[c] + begin, n, gradient, dlogits[c] + begin);
}

// Threads of a block that shares n elements, `each` for a thread and access.
unsigned threads_for(std::int64_t n, std::int64_t each) {
  const std::int64_t warps = (n + each * warp_size - 1) / (each * warp_size);
  return extent(warp_size * std::clamp<std::int64_t>(warps, 1, most_threads / warp_size));
}

Grid one_thread_a_row(std::int64_t rows) {
  constexpr unsigned threads = 128;
  return {dim3(extent((rows + threads - 1) / threads)), dim3(threads)};
}

}  // namespace

void cross_entropy_statistics(Stream& stream, const TensorView& logits_CV,
                              const TensorView& targets_C, std::int64_t first,
                              const TensorView& stats_C3) {
  const std::int64_t C = logits_CV.dim(0), V = logits_CV.dim(1);
  if (C == 0) return;
  visit_floating(logits_CV.dtype(), [&]<class L>(L) {
    const Grid grid{dim3(extent(C)), dim3(threads_for(V, pack_elements<L>))};
    launch(stream, grid, statistics_kernel<DeviceType<L>>, rows_of<L>(logits_CV), V,
           targets_C.data<std::int32_t>(), first, rows_of<Wide<DeviceType<L>>>(stats_C3));
  });
}

void cross_entropy_combine(Stream& stream, const TensorView& stats_RC3,
                           const TensorView& stats_C3) {
  const std::int64_t R = stats_RC3.dim(0), C = stats_RC3.dim(1);
  if (C == 0) return;
  math::visit_statistics(stats_RC3.dtype(), [&]<class A>(A) {
    launch(stream, one_thread_a_row(C), combine_kernel<A>, stats_RC3.data<A>(), R, C,
           rows_of<A>(stats_C3));
  });
}

void cross_entropy_loss(Stream& stream, const TensorView& stats_C3,
                        const TensorView& targets_C, double z_loss,
                        const TensorView& loss_C) {
  const std::int64_t C = stats_C3.dim(0);
  if (C == 0) return;
  math::visit_statistics(stats_C3.dtype(), [&]<class A>(A) {
    launch(stream, one_thread_a_row(C), loss_kernel<A>, rows_of<A>(stats_C3), C,
           targets_C.data<std::int32_t>(), z_loss, loss_C.data<A>());
  });
}

void cross_entropy_gradient(Stream& stream, const TensorView& logits_CV,
                            const TensorView& stats_C3, const TensorView& targets_C,
                            std::int64_t first, const LossScale& scale, double z_loss,
                            const TensorView& dlogits_CV) {
  const std::int64_t C = logits_CV.dim(0), V = logits_CV.dim(1);
  if (C == 0 || V == 0) return;
  const TensorView& in_memory = scale.memory();
  const double* const factors =
      scale.factors().empty() ? nullptr : scale.factors().data<double>();
  const Scale on_device = in_memory.empty()
                              ? Scale{nullptr, scale.value(), factors}
                              : Scale{in_memory.data<double>(), 0.0, factors};
  constexpr std::int64_t part = 32768;  // enough for the threads of a block
  visit_floating(logits_CV.dtype(), [&]<class L>(L) {
    visit_floating(dlogits_CV.dtype(), [&]<class G>(G) {
      const unsigned parts = extent((V + part - 1) / part);
      const Grid grid{dim3(extent(C), parts),
                      dim3(threads_for(std::min(V, part), pack_elements<L>))};
      launch(stream, grid, gradient_kernel<DeviceType<L>, DeviceType<G>>,
             rows_of<L>(logits_CV), V, part, rows_of<Wide<DeviceType<L>>>(stats_C3),
             targets_C.data<std::int32_t>(), first, on_device, z_loss,
             rows_of<G>(dlogits_CV));
    });
  });
}

}  // namespace trireme::kernels::cuda
