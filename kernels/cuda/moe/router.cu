// Scores and weights of the router on a GPU: a warp for each token.
// SPDX-License-Identifier: Apache-2.0
// What a warp reads again is in the first-level cache. T tokens, E experts, K of a token.
#include "kernels/cuda/common/math.cuh"
#include "kernels/cuda/moe/demand.hpp"
#include "kernels/cuda/moe/router_tokens.cuh"
#include "kernels/math/activation.hpp"
#include "kernels/math/router.hpp"
#include "kernels/math/softmax.hpp"
#include "kernels/router.hpp"

namespace trireme::kernels::cuda {
namespace {

template <class A>
__global__ void scores_kernel(RouterScore kind, Rows<A> logits, std::int64_t T,
                              std::int64_t E, Rows<A> scores) {
  for_tokens(T, [&](std::int64_t t) {
    const A* const x = logits[t];
    A* const s = scores[t];
    if (kind == RouterScore::sigmoid) {
      for_experts(
          E, [&](std::int64_t e) { s[e] = math::logistic<DeviceMath<A>>(x[e]).value; });
      return;
    }
    const auto softmax = softmax_of(x, E);
    const A scale = A(1) / softmax.sum;
    for_experts(E, [&](std::int64_t e) {
      s[e] = math::scaled_exponential<DeviceMath<A>>(scale, x[e], softmax.highest);
    });
  });
}

template <class A>
__global__ void scores_backward_kernel(RouterScore kind, Rows<A> scores, Rows<A> dscores,
                                       std::int64_t T, std::int64_t E, Rows<A> dlogits) {
  for_tokens(T, [&](std::int64_t t) {
    const A *const s = scores[t], *const ds = dscores[t];
    A* const dx = dlogits[t];
    if (kind == RouterScore::sigmoid) {
      for_experts(E,
                  [&](std::int64_t e) { dx[e] = math::logistic_gradient(s[e], ds[e]); });
      return;
    }
    const A mean = sum_over_experts<A>(E, [&](std::int64_t e) { return s[e] * ds[e]; });
    for_experts(
        E, [&](std::int64_t e) { dx[e] = math::softmax_gradient(s[e], ds[e], mean); });
  });
}

// A thread for each token.
template <class A>
__global__ void weights_kernel(RouterWeights rule, Rows<A> scores,
                               const std::int32_t* choice_TK, std::int64_t T,
                               std::int64_t K, Rows<A> weights) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= T) return;
  const A* const s = scores[t];
  const std::int32_t* const choice = choice_TK + t * K;
  const A factor = math::weight_factor(rule, s, choice, K);
  for (std::int64_t k = 0; k < K; ++k) weights[t][k] = s[choice[k]] * factor;
}

// With w_k = c s_k / Z: ds_k = c / Z (dw_k - sum_j dw_j s_j / Z) when Z is the sum of the
// chosen, else c dw_k.
template <class A>
__global__ void weights_backward_kernel(RouterWeights rule, Rows<A> scores,
                                        const std::int32_t* choice_TK, Rows<A> dweights,
                                        std::int64_t T, std::int64_t E, std::int64_t K,
                                        Rows<A> dscores) {
  for_tokens(T, [&](std::int64_t t) {
    const A *const s = scores[t], *const dw = dweights[t];
    A* const ds = dscores[t];
    const std::int32_t* const choice = choice_TK + t * K;
    const A factor = math::weight_factor(rule, s, choice, K);
    A mean = 0;
    if (rule.normalise) {
      for (std::int64_t k = 0; k < K; ++k) mean += dw[k] * s[choice[k]] * factor;
      mean /= static_cast<A>(rule.scaling);
    }
    for_experts(E, [&](std::int64_t e) { ds[e] = A(0); });
    __syncwarp();
    for (std::int64_t k = lane_of_thread(); k < K; k += warp_size)
      ds[choice[k]] = factor * (dw[k] - mean);
  });
}

}  // namespace

void router_scores(Stream& stream, RouterScore kind, const TensorView& logits_TE,
                   const TensorView& scores_TE) {
  const std::int64_t T = logits_TE.dim(0), E = logits_TE.dim(1);
  if (T == 0) return;
  visit_scores(logits_TE.dtype(), [&]<class A>(A) {
    launch(stream, token_grid(stream, T), scores_kernel<A>, kind, rows_of<A>(logits_TE),
           T, E, rows_of<A>(scores_TE));
  });
}

void router_scores_backward(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                            const TensorView& dscores_TE, const TensorView& dlogits_TE) {
  const std::int64_t T = scores_TE.dim(0), E = scores_TE.dim(1);
  if (T == 0) return;
  visit_scores(scores_TE.dtype(), [&]<class A>(A) {
    launch(stream, token_grid(stream, T), scores_backward_kernel<A>, kind,
           rows_of<A>(scores_TE), rows_of<A>(dscores_TE), T, E, rows_of<A>(dlogits_TE));
  });
}

void router_weights(Stream& stream, const RouterWeights& rule,
                    const TensorView& scores_TE, const TensorView& choice_TK,
                    const TensorView& weights_TK) {
  const std::int64_t T = scores_TE.dim(0);
  if (T == 0) return;
  constexpr unsigned threads = 64;
  visit_scores(scores_TE.dtype(), [&]<class A>(A) {
    launch(stream, {dim3(extent((T + threads - 1) / threads)), dim3(threads)},
           weights_kernel<A>, rule, rows_of<A>(scores_TE), choice_TK.data<std::int32_t>(),
           T, choice_TK.dim(1), rows_of<A>(weights_TK));
  });
}

void router_weights_backward(Stream& stream, const RouterWeights& rule,
                             const TensorView& scores_TE, const TensorView& choice_TK,
                             const TensorView& dweights_TK,
                             const TensorView& dscores_TE) {
  const std::int64_t T = scores_TE.dim(0), E = scores_TE.dim(1);
  if (T == 0) return;
  visit_scores(scores_TE.dtype(), [&]<class A>(A) {
    launch(stream, token_grid(stream, T), weights_backward_kernel<A>, rule,
           rows_of<A>(scores_TE), choice_TK.data<std::int32_t>(), rows_of<A>(dweights_TK),
           T, E, choice_TK.dim(1), rows_of<A>(dscores_TE));
  });
}

}  // namespace trireme::kernels::cuda
