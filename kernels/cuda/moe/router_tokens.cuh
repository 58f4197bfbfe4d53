// What the router's kernels share: a warp for each of T tokens, E experts on its lanes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "kernels/cuda/common/cuts.cuh"
#include "kernels/cuda/moe/choices.cuh"
#include "kernels/math/router.hpp"
#include "kernels/router.hpp"

namespace trireme::kernels::cuda {

inline constexpr unsigned tokens_of_block = 4;

// A warp for each token, or for several one after the other.
inline Grid token_grid(const Stream& stream, std::int64_t T) {
  return {dim3(striding_blocks(stream, T, tokens_of_block)),
          dim3(tokens_of_block * warp_size)};
}

// f(t) by one warp for every token.
template <class F>
__device__ inline void for_tokens(std::int64_t T, const F& f) {
  const std::int64_t stride = std::int64_t{gridDim.x} * tokens_of_block;
  for (std::int64_t t = std::int64_t{blockIdx.x} * tokens_of_block + warp_of_thread();
       t < T; t += stride)
    f(t);
}

// Sum of f(e) over the experts; every lane gets it.
template <class A, class F>
__device__ inline A sum_over_experts(std::int64_t E, const F& f) {
  A sum = 0;
  for (std::int64_t e = lane_of_thread(); e < E; e += warp_size) sum += f(e);
  return warp_sum(sum);
}

template <class F>
__device__ inline void for_experts(std::int64_t E, const F& f) {
  for (std::int64_t e = lane_of_thread(); e < E; e += warp_size) f(e);
}

// 1 / sum_j s_j for sigmoid scores; softmax scores sum to 1.
template <class A>
__device__ inline A reciprocal_sum(RouterScore kind, const A* s, std::int64_t E) {
  if (kind == RouterScore::softmax) return A(1);
  const A sum = sum_over_experts<A>(E, [&](std::int64_t e) { return s[e]; });
  return A(1) / (sum + static_cast<A>(math::smallest_sum));
}

template <class A>
struct Softmax {
  A highest, sum;  // of exp(x - highest)
};

template <class A>
__device__ inline Softmax<A> softmax_of(const A* x, std::int64_t E) {
  A highest = -std::numeric_limits<A>::infinity();
  for_experts(E, [&](std::int64_t e) { highest = x[e] > highest ? x[e] : highest; });
  highest = warp_max(highest);
  const A sum =
      sum_over_experts<A>(E, [&](std::int64_t e) { return exponential(x[e] - highest); });
  return {highest, sum};
}

// Calls f with the type of the scores: f32 or f64.
template <class F>
void visit_scores(DType dtype, const F& f) {
  if (dtype == DType::f64)
    f(double{});
  else
    f(float{});
}

}  // namespace trireme::kernels::cuda
