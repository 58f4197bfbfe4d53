// The losses of the router on a GPU.
// SPDX-License-Identifier: Apache-2.0
// T tokens, E experts, K experts of a token, B sequences.
#include <cuda_machine/shared.cuh>

#include "base/device_memory.hpp"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/moe/demand.hpp"
#include "kernels/cuda/moe/router_tokens.cuh"
#include "kernels/router.hpp"

namespace trireme::kernels::cuda {
namespace {

// The sums of a sequence are those of its parts: how its tokens are cut into them.
struct Parts {
  std::int64_t tokens = 0;  // of a sequence
  std::int64_t count = 0;   // of the parts of a sequence
  std::int64_t length = 0;  // tokens of a part; the last may be shorter
};

constexpr int tile = 64;  // tokens whose scales lie in shared memory at a time

Parts parts_of(std::int64_t tokens) {
  constexpr std::int64_t most_parts = 128;
  const std::int64_t least = (tokens + most_parts - 1) / most_parts;
  const std::int64_t length = std::max<std::int64_t>((least + tile - 1) / tile, 1) * tile;
  return {tokens, std::max<std::int64_t>((tokens + length - 1) / length, 1), length};
}

// Part p of sequence b: counts and sums of s_e / sum_j s_j over its tokens. Counts are
// kept as integers, sums of each expert by one thread in the order of tokens.
template <class A>
__global__ void part_sums_kernel(RouterScore kind, Rows<A> scores,
                                 const std::int32_t* choice_TK, std::int64_t K,
                                 std::int64_t E, Parts parts, A* sums_BP2E) {
  A* const probability = dynamic_shared<A>();
  auto* const count = reinterpret_cast<std::int32_t*>(probability + E);
  __shared__ A scale[tile];
  const std::int64_t b = blockIdx.x / parts.count, p = blockIdx.x % parts.count;
  const std::int64_t end = p + 1 < parts.count ? (p + 1) * parts.length : parts.tokens;
  for (std::int64_t e = threadIdx.x; e < E; e += blockDim.x)
    probability[e] = A(0), count[e] = 0;
  for (std::int64_t begin = p * parts.length; begin < end; begin += tile) {
    const std::int64_t first = b * parts.tokens + begin;
    const int n = static_cast<int>(end - begin < tile ? end - begin : tile);
    __syncthreads();
    for (int t = warp_of_thread(); t < n; t += static_cast<int>(blockDim.x) / warp_size) {
      const A of_token = reciprocal_sum<A>(kind, scores[first + t], E);
      if (lane_of_thread() == 0) scale[t] = of_token;
    }
    for (std::int64_t i = threadIdx.x; i < n * K; i += blockDim.x)
      atomicAdd(&count[choice_TK[first * K + i]], 1);
    __syncthreads();
    for (std::int64_t e = threadIdx.x; e < E; e += blockDim.x) {
      A sum = 0;
#pragma unroll 8
      for (int t = 0; t < n; ++t) sum += scores[first + t][e] * scale[t];
      probability[e] += sum;
    }
  }
  __syncthreads();
  A* const sums = sums_BP2E + blockIdx.x * 2 * E;
  for (std::int64_t e = threadIdx.x; e < E; e += blockDim.x) {
    sums[e] = static_cast<A>(count[e]);
    sums[E + e] = probability[e];
  }
}

// sums_BI[b, i] = sum over p, ascending, of parts_BPI[b, p, i].
template <class A>
__global__ void add_parts_kernel(const A* parts_BPI, std::int64_t B, std::int64_t P,
                                 std::int64_t I, A* sums_BI) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= B * I) return;
  const A* const parts = parts_BPI + at / I * P * I + at % I;
  A sum = 0;
#pragma unroll 8
  for (std::int64_t p = 0; p < P; ++p) sum += parts[p * I];
  sums_BI[at] = sum;
}

// One block: sum = (add ? sum : 0) + factor * (sum_e counts_e probabilities_e) * E /
// divisor.
template <class A>
__global__ void balance_loss_kernel(const A* sums_B2E, std::int64_t B, std::int64_t E,
                                    double divisor, double factor, bool add,
                                    double* sum) {
  double mine = 0;
  for (std::int64_t i = threadIdx.x; i < B * E; i += blockDim.x) {
    const A* const count = sums_B2E + i / E * 2 * E + i % E;
    mine += static_cast<double>(count[0]) * static_cast<double>(count[E]);
  }
  const double loss = block_sum(mine) * static_cast<double>(E) / divisor;
  if (threadIdx.x == 0) *sum = (add ? *sum : 0.0) + factor * loss;
}

// K S^2, of K choices a token in sequences of S tokens.
double balance_divisor(std::int64_t top_k, std::int64_t sequence) {
  const auto S = static_cast<double>(sequence);
  return static_cast<double>(top_k) * S * S;
}

void balance(Stream& stream, const TensorView& sums_B2E, std::int64_t top_k,
             std::int64_t sequence, double factor, bool add, const TensorView& sum_1) {
  visit_scores(sums_B2E.dtype(), [&]<class A>(A) {
    launch(stream, {dim3(1), dim3(256)}, balance_loss_kernel<A>, sums_B2E.data<A>(),
           sums_B2E.dim(0), sums_B2E.dim(2), balance_divisor(top_k, sequence), factor,
           add, sum_1.data<double>());
  });
}

// With s' = s / Z, Z = sum_j s_j, and g_e = d loss / d s'_e: ds_e = (g_e - sum_j g_j
// s'_j) / Z for sigmoid scores, g_e for softmax scores, whose Z is the constant 1.
template <class A>
__global__ void balance_backward_kernel(RouterScore kind, Rows<A> scores,
                                        const A* sums_B2E, std::int64_t T, std::int64_t E,
                                        std::int64_t tokens, A slope, Rows<A> dscores) {
  for_tokens(T, [&](std::int64_t t) {
    const A *const s = scores[t], *const count = sums_B2E + t / tokens * 2 * E;
    A* const ds = dscores[t];
    const A scale = reciprocal_sum(kind, s, E);
    const A mean =
        kind == RouterScore::softmax ? A(0) : sum_over_experts<A>(E, [&](std::int64_t e) {
          return count[e] * s[e] * scale;
        });
    for_experts(E, [&](std::int64_t e) { ds[e] += slope * scale * (count[e] - mean); });
  });
}

__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }

template <class A>
__global__ void log_sum_kernel(Rows<A> logits, std::int64_t T, std::int64_t E, A* lse) {
  for_tokens(T, [&](std::int64_t t) {
    const auto softmax = softmax_of<A>(logits[t], E);
    if (lane_of_thread() == 0) lse[t] = softmax.highest + logarithm(softmax.sum);
  });
}

// One block: sum = (add ? sum : 0) + factor * sum over tokens of lse^2.
template <class A>
__global__ void sum_squares_kernel(const A* lse, std::int64_t T, double factor, bool add,
                                   double* sum) {
  double mine = 0;
  for (std::int64_t t = threadIdx.x; t < T; t += blockDim.x)
    mine += static_cast<double>(lse[t]) * static_cast<double>(lse[t]);
  const double loss = block_sum(mine);
  if (threadIdx.x == 0) *sum = (add ? *sum : 0.0) + factor * loss;
}

void z_loss(Stream& stream, const TensorView& logits_TE, const TensorView& lse_T,
            double factor, bool add, const TensorView& sum_1) {
  const std::int64_t T = logits_TE.dim(0);
  visit_scores(logits_TE.dtype(), [&]<class A>(A) {
    A* const lse = lse_T.data<A>();
    if (T > 0)
      launch(stream, token_grid(stream, T), log_sum_kernel<A>, rows_of<A>(logits_TE), T,
             logits_TE.dim(1), lse);
    launch(stream, {dim3(1), dim3(512)}, sum_squares_kernel<A>, lse, T, factor, add,
           sum_1.data<double>());
  });
}

// d lse^2 / dx_e = 2 lse softmax(x)_e; factor2 is twice the factor.
template <class A>
__global__ void z_loss_backward_kernel(Rows<A> logits, const A* lse, A factor2,
                                       std::int64_t T, std::int64_t E, Rows<A> dlogits) {
  for_tokens(T, [&](std::int64_t t) {
    const A* const x = logits[t];
    A* const dx = dlogits[t];
    const A slope = factor2 * lse[t];
    for_experts(E, [&](std::int64_t e) { dx[e] += slope * exponential(x[e] - lse[t]); });
  });
}

// A number on the device, once the device has come this far.
double fetch(Stream& stream, const TensorView& sum_1) {
  double value = 0;
  copy_bytes(stream, sum_1, TensorView(&value, DType::f64, {1}));
  return value;
}

}  // namespace

std::int64_t balance_sums_workspace(const TensorView& scores_TE,
                                    const TensorView& sums_B2E) {
  const std::int64_t B = sums_B2E.dim(0);
  return B * parts_of(scores_TE.dim(0) / B).count * 2 * scores_TE.dim(1) *
         static_cast<std::int64_t>(size_of(scores_TE.dtype()));
}

void balance_sums(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                  const TensorView& choice_TK, const TensorView& sums_B2E) {
  const std::int64_t B = sums_B2E.dim(0), E = scores_TE.dim(1);
  const Parts parts = parts_of(scores_TE.dim(0) / B);
  visit_scores(scores_TE.dtype(), [&]<class A>(A) {
    A* const of_parts =
        workspace(stream, scores_TE.dtype(), {B, parts.count, 2, E}).template data<A>();
    const Grid grid{dim3(extent(B * parts.count)), dim3(256),
                    static_cast<std::size_t>(E) * (sizeof(A) + sizeof(std::int32_t))};
    launch(stream, grid, part_sums_kernel<A>, kind, rows_of<A>(scores_TE),
           choice_TK.data<std::int32_t>(), choice_TK.dim(1), E, parts, of_parts);
    launch(stream, {dim3(extent((B * 2 * E + 127) / 128)), dim3(128)},
           add_parts_kernel<A>, of_parts, B, parts.count, 2 * E, sums_B2E.data<A>());
  });
}

double balance_loss(Stream& stream, const TensorView& sums_B2E, std::int64_t top_k,
                    std::int64_t sequence) {
  const TensorView sum_1 = workspace(stream, DType::f64, {1});
  balance(stream, sums_B2E, top_k, sequence, 1.0, false, sum_1);
  return fetch(stream, sum_1);
}

void add_balance_loss(Stream& stream, const TensorView& sums_B2E, std::int64_t top_k,
                      std::int64_t sequence, double factor, const TensorView& sum_1) {
  balance(stream, sums_B2E, top_k, sequence, factor, true, sum_1);
}

void balance_loss_backward(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                           const TensorView& sums_B2E, std::int64_t top_k,
                           std::int64_t sequence, double factor,
                           const TensorView& dscores_TE) {
  const std::int64_t T = scores_TE.dim(0), E = scores_TE.dim(1);
  if (T == 0) return;
  const double slope = factor * static_cast<double>(E) / balance_divisor(top_k, sequence);
  visit_scores(scores_TE.dtype(), [&]<class A>(A) {
    launch(stream, token_grid(stream, T), balance_backward_kernel<A>, kind,
           rows_of<A>(scores_TE), sums_B2E.data<A>(), T, E, T / sums_B2E.dim(0), slope,
           rows_of<A>(dscores_TE));
  });
}

double router_z_loss(Stream& stream, const TensorView& logits_TE,
                     const TensorView& lse_T) {
  const TensorView sum_1 = workspace(stream, DType::f64, {1});
  z_loss(stream, logits_TE, lse_T, 1.0, false, sum_1);
  return fetch(stream, sum_1);
}

void add_router_z_loss(Stream& stream, const TensorView& logits_TE,
                       const TensorView& lse_T, double factor, const TensorView& sum_1) {
  z_loss(stream, logits_TE, lse_T, factor, true, sum_1);
}

void router_z_loss_backward(Stream& stream, const TensorView& logits_TE,
                            const TensorView& lse_T, double factor,
                            const TensorView& dlogits_TE) {
  const std::int64_t T = logits_TE.dim(0), E = logits_TE.dim(1);
  if (T == 0) return;
  visit_scores(logits_TE.dtype(), [&]<class A>(A) {
    launch(stream, token_grid(stream, T), z_loss_backward_kernel<A>,
           rows_of<A>(logits_TE), lse_T.data<A>(), 2 * factor, T, E,
           rows_of<A>(dlogits_TE));
  });
}

}  // namespace trireme::kernels::cuda
