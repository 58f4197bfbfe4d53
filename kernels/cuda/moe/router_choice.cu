// The router's choice of experts, limits and counts (T tokens, E experts, K of a token).
// SPDX-License-Identifier: Apache-2.0
#include <cuda_machine/shared.cuh>

#include "kernels/cuda/moe/choice_segments.cuh"
#include "kernels/cuda/moe/demand.hpp"
#include "kernels/cuda/moe/router_tokens.cuh"
#include "kernels/router.hpp"

namespace trireme::kernels::cuda {
namespace {

// An expert and its value; e = none: there is no such expert.
template <class A>
struct Candidate {
  static constexpr std::int32_t none = std::numeric_limits<std::int32_t>::max();
  A value = 0;
  std::int32_t e = none;

  // Whether this one is chosen before the other: neither value is NaN.
  __device__ bool before(const Candidate& other) const {
    if (e == none || other.e == none) return other.e == none && e != none;
    return value > other.value || (value == other.value && e < other.e);
  }
};

template <class A>
__device__ inline Candidate<A> warp_best(Candidate<A> mine) {
#pragma unroll
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    const Candidate<A> other{__shfl_xor_sync(all_lanes, mine.value, distance),
                             __shfl_xor_sync(all_lanes, mine.e, distance)};
    if (other.before(mine)) mine = other;
  }
  return mine;
}

__device__ inline std::int32_t warp_min(std::int32_t x) {
#pragma unroll
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    const std::int32_t other = __shfl_xor_sync(all_lanes, x, distance);
    x = other < x ? other : x;
  }
  return x;
}

// What one token has chosen so far, without a list: the numbers chosen are those that
// come before `last` and itself, the NaN those up to last_nan.
template <class A>
struct Chosen {
  Candidate<A> last;
  std::int32_t last_nan = -1;

  // The next of E experts by falling value, of equal ones the lower index first. A NaN is
  // chosen where it is the first that is left, as by a scan that keeps what nothing
  // compares greater than: so the choice stays legal.
  template <class F>
  __device__ std::int32_t next(std::int32_t E, const F& value_of) {
    constexpr std::int32_t none = Candidate<A>::none;
    Candidate<A> best;
    std::int32_t first = none;  // 2 e, and 1 more where e is a number, of those left
    for (std::int32_t e = lane_of_thread(); e < E; e += warp_size) {
      const Candidate<A> here{value_of(e), e};
      const bool number = here.value == here.value;
      const bool left = number ? last.e == none || last.before(here) : e > last_nan;
      if (!left) continue;
      if (first == none) first = 2 * e + (number ? 1 : 0);
      if (number && here.before(best)) best = here;
    }
    first = warp_min(first);
    best = warp_best(best);
    if (first % 2 == 0) return last_nan = first / 2;
    last = best;
    return best.e;
  }
};

template <class A>
__global__ void choose_kernel(Rows<A> scores, const A* bias, std::int64_t T,
                              std::int32_t E, std::int64_t K, std::int32_t* choice_TK) {
  for_tokens(T, [&](std::int64_t t) {
    const A* const s = scores[t];
    Chosen<A> chosen;
    for (std::int64_t k = 0; k < K; ++k) {
      const std::int32_t e = chosen.next(
          E, [&](std::int32_t i) { return bias != nullptr ? s[i] + bias[i] : s[i]; });
      if (lane_of_thread() == 0) choice_TK[t * K + k] = e;
    }
  });
}

// The sum of the `counted` largest of n values, taken one after the other.
template <class A, class F>
__device__ inline A sum_of_largest(std::int64_t counted, std::int64_t n, const F& value) {
  A sum = 0, last = std::numeric_limits<A>::infinity();
  std::int64_t last_at = -1;  // of equal values those up to here have been taken
  for (std::int64_t c = 0; c < counted && c < n; ++c) {
    A best = 0;
    std::int64_t at = -1;
    for (std::int64_t i = 0; i < n; ++i) {
      const A here = value(i);
      const bool taken = here > last || (here == last && i <= last_at);
      if (!taken && (at < 0 || here > best)) best = here, at = i;
    }
    if (at < 0) break;  // only NaN is left
    last = best;
    last_at = at;
    sum += last;
  }
  return sum;
}

// Each lane has the sum of one group, and sees those of the others.
template <class A>
__global__ void limit_to_groups_kernel(ExpertGroups of, Rows<A> scores, const A* bias,
                                       std::int64_t T, std::int64_t E, Rows<A> limited) {
  const std::int64_t size = E / of.groups;
  for_tokens(T, [&](std::int64_t t) {
    const A* const s = scores[t];
    const auto value = [&](std::int64_t e) {
      return bias != nullptr ? s[e] + bias[e] : s[e];
    };
    const int lane = lane_of_thread();
    A mine = 0;
    if (lane < of.groups)
      mine = sum_of_largest<A>(of.counted, size,
                               [&](std::int64_t i) { return value(lane * size + i); });
    int before = 0;
    for (int other = 0; other < of.groups; ++other) {
      const A theirs = __shfl_sync(all_lanes, mine, other);
      before += theirs > mine || (theirs == mine && other < lane) ? 1 : 0;
    }
    const int used = lane < of.groups && before < of.used ? 1 : 0;
    for (int g = 0; g < of.groups; ++g) {
      const bool here = __shfl_sync(all_lanes, used, g) != 0;
      for (std::int64_t e = g * size + lane; e < (g + 1) * size; e += warp_size)
        limited[t][e] = here ? value(e) : -std::numeric_limits<A>::infinity();
    }
  });
}

// A block for each sequence: every warp counts the choices of its segment, the counts of
// the segments before are summed, and every warp walks again from there.
__global__ void limit_kernel(const std::int32_t* choice_TK, std::int64_t E,
                             std::int64_t pairs, std::int64_t capacity,
                             std::int32_t* kept_TK) {
  const std::int64_t warps = blockDim.x / warp_size, warp = warp_of_thread();
  std::int32_t* const counts = dynamic_shared<std::int32_t>();  // [warps, E]
  const std::int64_t length = (pairs + warps - 1) / warps;
  const std::int64_t first = warp * length < pairs ? warp * length : pairs;
  const std::int64_t count = pairs - first < length ? pairs - first : length;
  const std::int32_t* const choice = choice_TK + blockIdx.x * pairs + first;
  std::int32_t* const kept = kept_TK + blockIdx.x * pairs + first;
  clear_counts(E, counts + warp * E);
  walk_choices(choice, count, E, counts + warp * E,
               [](std::int64_t, std::int32_t, std::int32_t) {});
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e < E; e += blockDim.x) {
    std::int32_t before = 0;
    for (std::int64_t w = 0; w < warps; ++w) {
      const std::int32_t here = counts[w * E + e];
      counts[w * E + e] = before;
      before += here;
    }
  }
  __syncthreads();
  walk_choices(choice, count, E, counts + warp * E,
               [&](std::int64_t i, std::int32_t e, std::int32_t place) {
                 kept[i] = place < capacity ? e : -1;
               });
}

// counts_E[e] += sum over u of segments_EU[e, u], by warp e.
__global__ void add_counts_kernel(const std::int32_t* segments_EU, std::int64_t E,
                                  std::int64_t U, double* counts_E) {
  const std::int64_t e =
      std::int64_t{blockIdx.x} * (blockDim.x / warp_size) + warp_of_thread();
  if (e >= E) return;
  double count = 0;  // of integers: exact
  for (std::int64_t u = lane_of_thread(); u < U; u += warp_size)
    count += segments_EU[e * U + u];
  count = warp_sum(count);
  if (lane_of_thread() == 0) counts_E[e] += count;
}

}  // namespace

void choose_experts(Stream& stream, const TensorView& scores_TE, const TensorView& bias_E,
                    const TensorView& choice_TK) {
  const std::int64_t T = scores_TE.dim(0), E = scores_TE.dim(1);
  require(E < std::int64_t{1} << 30, "a router of {} experts is too wide", E);
  if (T == 0) return;
  visit_scores(scores_TE.dtype(), [&]<class A>(A) {
    launch(stream, token_grid(stream, T), choose_kernel<A>, rows_of<A>(scores_TE),
           bias_E.empty() ? nullptr : bias_E.data<A>(), T, E, choice_TK.dim(1),
           choice_TK.data<std::int32_t>());
  });
}

void limit_to_groups(Stream& stream, const ExpertGroups& groups,
                     const TensorView& scores_TE, const TensorView& bias_E,
                     const TensorView& limited_TE) {
  const std::int64_t T = scores_TE.dim(0), E = scores_TE.dim(1);
  if (T == 0) return;
  visit_scores(scores_TE.dtype(), [&]<class A>(A) {
    launch(stream, token_grid(stream, T), limit_to_groups_kernel<A>, groups,
           rows_of<A>(scores_TE), bias_E.empty() ? nullptr : bias_E.data<A>(), T, E,
           rows_of<A>(limited_TE));
  });
}

void limit_choices(Stream& stream, const TensorView& choice_TK, std::int64_t experts,
                   std::int64_t sequence, std::int64_t capacity,
                   const TensorView& kept_TK) {
  const std::int64_t pairs = sequence * choice_TK.dim(1);
  require(pairs <= std::numeric_limits<std::int32_t>::max(),
          "limit_choices: {} choices of one sequence are too many", pairs);
  if (choice_TK.elements() == 0) return;
  // As many warps as there is work and shared memory for.
  constexpr std::int64_t shared_counters = 12288, most_warps = 32;
  const std::int64_t warps =
      std::min(std::clamp<std::int64_t>(shared_counters / experts, 1, most_warps),
               (pairs + warp_size - 1) / warp_size);
  const Grid grid{dim3(extent(choice_TK.dim(0) / sequence)),
                  dim3(extent(warps * warp_size)),
                  static_cast<std::size_t>(warps * experts) * sizeof(std::int32_t)};
  launch(stream, grid, limit_kernel, choice_TK.data<std::int32_t>(), experts, pairs,
         capacity, kept_TK.data<std::int32_t>());
}

void count_choices(Stream& stream, const TensorView& choice_TK,
                   const TensorView& counts_E) {
  const std::int64_t N = choice_TK.elements(), E = counts_E.dim(0);
  if (N == 0) return;
  const TensorView segments_EU =
      count_segments(stream, choice_TK.data<std::int32_t>(), N, E);
  constexpr unsigned warps = 4;
  launch(stream, {dim3(extent((E + warps - 1) / warps)), dim3(warps * warp_size)},
         add_counts_kernel, segments_EU.data<std::int32_t>(), E, segments_of(N),
         counts_E.data<double>());
}

}  // namespace trireme::kernels::cuda
