// The router of an MoE layer on the host.
// SPDX-License-Identifier: Apache-2.0
// Threads share the rows (tokens); E is small, so that each row is a few short loops.
// T tokens, E experts, K experts of a token, B sequences.
#include "kernels/router.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/math/router.hpp"
#include "kernels/math/softmax.hpp"

namespace trireme::kernels::host {
namespace {

// Row t of the i32 matrix [T, K].
std::int32_t* choices_of(const TensorView& choice_TK, std::int64_t t) {
  return choice_TK.data<std::int32_t>() + t * choice_TK.dim(1);
}

// Shares the rows of a [T, E] tensor: f(t).
template <class F>
void for_tokens(const char* label, const TensorView& of_TE, const F& f) {
  for_rows(label, of_TE.dim(0), of_TE.dim(1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) f(t);
  });
}

template <class A>
struct Softmax {
  A highest = 0, sum = 0;
};

template <class A>
Softmax<A> softmax_of(const A* x, std::int64_t E) {
  Softmax<A> s{x[0], 0};
  for (std::int64_t e = 1; e < E; ++e) s.highest = x[e] > s.highest ? x[e] : s.highest;
  for (std::int64_t e = 0; e < E; ++e)
    s.sum += exponential_of_nonpositive(x[e] - s.highest);
  return s;
}

// 1 / sum_j s_j for sigmoid scores; softmax scores sum to 1.
template <class A>
A reciprocal_sum(RouterScore kind, const A* s, std::int64_t E) {
  if (kind == RouterScore::softmax) return A(1);
  A sum = 0;
  for (std::int64_t e = 0; e < E; ++e) sum += s[e];
  return A(1) / (sum + static_cast<A>(math::smallest_sum));
}

}  // namespace

void router_scores(Stream& /*stream*/, RouterScore kind, const TensorView& logits_TE,
                   const TensorView& scores_TE) {
  visit_floating(logits_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto logits = rows_of<const A>(logits_TE);
    const auto scores = rows_of<A>(scores_TE);
    const std::int64_t E = logits_TE.dim(1);
    for_tokens("router_scores", logits_TE, [&](std::int64_t t) {
      const A* x = logits[t];
      A* s = scores[t];
      if (kind == RouterScore::sigmoid) {
        for (std::int64_t e = 0; e < E; ++e) s[e] = logistic(x[e]).value;
        return;
      }
      const auto softmax = softmax_of(x, E);
      const A scale = A(1) / softmax.sum;
      for (std::int64_t e = 0; e < E; ++e)
        s[e] = math::scaled_exponential<HostMath>(scale, x[e], softmax.highest);
    });
  });
}

void router_scores_backward(Stream& /*stream*/, RouterScore kind,
                            const TensorView& scores_TE, const TensorView& dscores_TE,
                            const TensorView& dlogits_TE) {
  visit_floating(scores_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto scores = rows_of<const A>(scores_TE);
    const auto dscores = rows_of<const A>(dscores_TE);
    const auto dlogits = rows_of<A>(dlogits_TE);
    const std::int64_t E = scores_TE.dim(1);
    for_tokens("router_scores_backward", scores_TE, [&](std::int64_t t) {
      const A *s = scores[t], *ds = dscores[t];
      A* dx = dlogits[t];
      A mean = 0;
      if (kind == RouterScore::softmax)
        for (std::int64_t e = 0; e < E; ++e) mean += s[e] * ds[e];
      for (std::int64_t e = 0; e < E; ++e)
        dx[e] = kind == RouterScore::softmax ? math::softmax_gradient(s[e], ds[e], mean)
                                             : math::logistic_gradient(s[e], ds[e]);
    });
  });
}

// K passes over E values. A later expert must be strictly larger to be chosen; the first
// that is left stands in where nothing compares (NaN), so that the choice stays legal.
void choose_experts(Stream& /*stream*/, const TensorView& scores_TE,
                    const TensorView& bias_E, const TensorView& choice_TK) {
  visit_floating(scores_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto scores = rows_of<const A>(scores_TE);
    const A* const bias = bias_E.empty() ? nullptr : bias_E.data<A>();
    const std::int64_t E = scores_TE.dim(1), K = choice_TK.dim(1);
    for_tokens("choose_experts", scores_TE, [&](std::int64_t t) {
      const A* s = scores[t];
      std::int32_t* const choice = choices_of(choice_TK, t);
      const auto value = [&](std::int64_t e) { return bias ? s[e] + bias[e] : s[e]; };
      for (std::int64_t k = 0; k < K; ++k) {
        std::int64_t best = -1;
        for (std::int64_t e = 0; e < E; ++e) {
          if (best >= 0 && !(value(e) > value(best))) continue;
          const bool taken = std::find(choice, choice + k, e) != choice + k;
          if (!taken) best = e;
        }
        choice[k] = static_cast<std::int32_t>(best);
      }
    });
  });
}

// The sum of the `counted` largest of n values, taken one after the other.
template <class A, class F>
A sum_of_largest(std::int64_t counted, std::int64_t n, const F& value) {
  A sum = 0, last = std::numeric_limits<A>::infinity();
  std::int64_t last_at = -1;  // of equal values those up to here have been taken
  for (std::int64_t c = 0; c < std::min(counted, n); ++c) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < n; ++i) {
      const bool taken = value(i) > last || (value(i) == last && i <= last_at);
      if (!taken && (best < 0 || value(i) > value(best))) best = i;
    }
    if (best < 0) break;  // only NaN is left
    last = value(best);
    last_at = best;
    sum += last;
  }
  return sum;
}

void limit_to_groups(Stream& /*stream*/, const ExpertGroups& of,
                     const TensorView& scores_TE, const TensorView& bias_E,
                     const TensorView& limited_TE) {
  visit_floating(scores_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto scores = rows_of<const A>(scores_TE);
    const auto limited = rows_of<A>(limited_TE);
    const A* const bias = bias_E.empty() ? nullptr : bias_E.data<A>();
    const std::int64_t size = scores_TE.dim(1) / of.groups;
    for_tokens("limit_to_groups", scores_TE, [&](std::int64_t t) {
      const A* s = scores[t];
      const auto value = [&](std::int64_t e) { return bias ? s[e] + bias[e] : s[e]; };
      std::array<A, most_expert_groups> sums{};
      for (std::int64_t g = 0; g < of.groups; ++g)
        sums[static_cast<std::size_t>(g)] = sum_of_largest<A>(
            of.counted, size, [&](std::int64_t i) { return value(g * size + i); });
      for (std::int64_t g = 0; g < of.groups; ++g) {
        const A mine = sums[static_cast<std::size_t>(g)];
        std::int64_t before = 0;
        for (std::int64_t other = 0; other < of.groups; ++other) {
          const A theirs = sums[static_cast<std::size_t>(other)];
          before += theirs > mine || (theirs == mine && other < g) ? 1 : 0;
        }
        for (std::int64_t e = g * size; e < (g + 1) * size; ++e)
          limited[t][e] =
              before < of.used ? value(e) : -std::numeric_limits<A>::infinity();
      }
    });
  });
}

void router_weights(Stream& /*stream*/, const RouterWeights& rule,
                    const TensorView& scores_TE, const TensorView& choice_TK,
                    const TensorView& weights_TK) {
  visit_floating(scores_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto scores = rows_of<const A>(scores_TE);
    const auto weights = rows_of<A>(weights_TK);
    const std::int64_t K = choice_TK.dim(1);
    for_tokens("router_weights", scores_TE, [&](std::int64_t t) {
      const A* s = scores[t];
      const std::int32_t* const choice = choices_of(choice_TK, t);
      const A factor = math::weight_factor(rule, s, choice, K);
      for (std::int64_t k = 0; k < K; ++k) weights[t][k] = s[choice[k]] * factor;
    });
  });
}

// With w_k = c s_k / Z: ds_k = c / Z (dw_k - sum_j dw_j s_j / Z) when Z is the sum of the
// chosen, else c dw_k.
void router_weights_backward(Stream& /*stream*/, const RouterWeights& rule,
                             const TensorView& scores_TE, const TensorView& choice_TK,
                             const TensorView& dweights_TK,
                             const TensorView& dscores_TE) {
  visit_floating(scores_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto scores = rows_of<const A>(scores_TE);
    const auto dweights = rows_of<const A>(dweights_TK);
    const auto dscores = rows_of<A>(dscores_TE);
    const std::int64_t E = scores_TE.dim(1), K = choice_TK.dim(1);
    for_tokens("router_weights_backward", scores_TE, [&](std::int64_t t) {
      const A *s = scores[t], *dw = dweights[t];
      const std::int32_t* const choice = choices_of(choice_TK, t);
      const A factor = math::weight_factor(rule, s, choice, K);
      A mean = 0;
      if (rule.normalise) {
        for (std::int64_t k = 0; k < K; ++k) mean += dw[k] * s[choice[k]] * factor;
        mean /= static_cast<A>(rule.scaling);
      }
      std::fill_n(dscores[t], E, A(0));
      for (std::int64_t k = 0; k < K; ++k)
        dscores[t][choice[k]] = factor * (dw[k] - mean);
    });
  });
}

void limit_choices(Stream& /*stream*/, const TensorView& choice_TK, std::int64_t experts,
                   std::int64_t sequence, std::int64_t capacity,
                   const TensorView& kept_TK) {
  const std::int64_t K = choice_TK.dim(1);
  static thread_local Scratch scratch("router: tokens of each expert");
  const std::int64_t sequences = choice_TK.dim(0) / sequence;
  auto* const all = scratch.take<std::int64_t>(sequences * experts);
  std::fill_n(all, sequences * experts, std::int64_t{0});
  for_ranges("limit_choices", sequences, 1, threads(),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t t = begin * sequence; t < end * sequence; ++t) {
                 std::int64_t* const count = all + t / sequence * experts;
                 const std::int32_t* const choice = choices_of(choice_TK, t);
                 std::int32_t* const kept = choices_of(kept_TK, t);
                 for (std::int64_t k = 0; k < K; ++k)
                   kept[k] = count[choice[k]]++ < capacity ? choice[k] : -1;
               }
             });
}

void count_choices(Stream& /*stream*/, const TensorView& choice_TK,
                   const TensorView& counts_E) {
  double* const counts = counts_E.data<double>();
  for (const std::int32_t e : choice_TK.span<std::int32_t>())
    if (e >= 0) counts[e] += 1;
}

void balance_sums(Stream& /*stream*/, RouterScore kind, const TensorView& scores_TE,
                  const TensorView& choice_TK, const TensorView& sums_B2E) {
  visit_floating(scores_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto scores = rows_of<const A>(scores_TE);
    A* const sums = sums_B2E.data<A>();
    const std::int64_t E = scores_TE.dim(1), K = choice_TK.dim(1), B = sums_B2E.dim(0);
    const std::int64_t tokens = scores_TE.dim(0) / B;
    const auto one = [&](std::int64_t b) {
      A *const count = sums + b * 2 * E, *const probability = count + E;
      std::fill_n(count, 2 * E, A(0));
      for (std::int64_t t = b * tokens; t < (b + 1) * tokens; ++t) {
        const A* s = scores[t];
        const A scale = reciprocal_sum(kind, s, E);
        for (std::int64_t k = 0; k < K; ++k) count[choices_of(choice_TK, t)[k]] += A(1);
        for (std::int64_t e = 0; e < E; ++e) probability[e] += s[e] * scale;
      }
    };
    for_ranges("balance_sums", B, 1, threads(),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t b = begin; b < end; ++b) one(b);
               });
  });
}

double balance_loss(Stream& /*stream*/, const TensorView& sums_B2E, std::int64_t top_k,
                    std::int64_t sequence) {
  const std::int64_t B = sums_B2E.dim(0), E = sums_B2E.dim(2);
  const auto S = static_cast<double>(sequence);
  double loss = 0;
  visit_floating(sums_B2E.dtype(), [&]<class T>(T) {
    const T* const sums = sums_B2E.data<T>();
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t e = 0; e < E; ++e)
        loss += static_cast<double>(load(sums[2 * b * E + e])) *
                static_cast<double>(load(sums[(2 * b + 1) * E + e]));
  });
  return loss * static_cast<double>(E) / (static_cast<double>(top_k) * S * S);
}

void add_balance_loss(Stream& stream, const TensorView& sums_B2E, std::int64_t top_k,
                      std::int64_t sequence, double factor, const TensorView& sum_1) {
  *sum_1.data<double>() += factor * balance_loss(stream, sums_B2E, top_k, sequence);
}

// With s' = s / Z, Z = sum_j s_j, and g_e = d loss / d s'_e: ds_e = (g_e - sum_j g_j
// s'_j) / Z for sigmoid scores, g_e for softmax scores, whose Z is the constant 1.
void balance_loss_backward(Stream& /*stream*/, RouterScore kind,
                           const TensorView& scores_TE, const TensorView& sums_B2E,
                           std::int64_t top_k, std::int64_t sequence, double factor,
                           const TensorView& dscores_TE) {
  visit_floating(scores_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto scores = rows_of<const A>(scores_TE);
    const auto dscores = rows_of<A>(dscores_TE);
    const std::int64_t E = scores_TE.dim(1), B = sums_B2E.dim(0);
    const std::int64_t tokens = scores_TE.dim(0) / B;
    const auto S = static_cast<double>(sequence);
    const A slope = static_cast<A>(factor * static_cast<double>(E) /
                                   (static_cast<double>(top_k) * S * S));
    for_tokens("balance_loss_backward", scores_TE, [&](std::int64_t t) {
      const A *s = scores[t], *count = sums_B2E.data<A>() + t / tokens * 2 * E;
      A* ds = dscores[t];
      const A scale = reciprocal_sum(kind, s, E);
      A mean = 0;
      if (kind == RouterScore::sigmoid)
        for (std::int64_t e = 0; e < E; ++e) mean += count[e] * s[e] * scale;
      for (std::int64_t e = 0; e < E; ++e) ds[e] += slope * scale * (count[e] - mean);
    });
  });
}

double router_z_loss(Stream& /*stream*/, const TensorView& logits_TE,
                     const TensorView& lse_T) {
  double loss = 0;
  visit_floating(logits_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto logits = rows_of<const A>(logits_TE);
    A* const lse = lse_T.data<A>();
    const std::int64_t E = logits_TE.dim(1);
    for_tokens("router_z_loss", logits_TE, [&](std::int64_t t) {
      const auto softmax = softmax_of(logits[t], E);
      lse[t] = softmax.highest + std::log(softmax.sum);
    });
    for (std::int64_t t = 0; t < logits_TE.dim(0); ++t)
      loss += static_cast<double>(lse[t]) * static_cast<double>(lse[t]);
  });
  return loss;
}

void add_router_z_loss(Stream& stream, const TensorView& logits_TE,
                       const TensorView& lse_T, double factor, const TensorView& sum_1) {
  *sum_1.data<double>() += factor * router_z_loss(stream, logits_TE, lse_T);
}

// d lse^2 / dx_e = 2 lse softmax(x)_e.
void router_z_loss_backward(Stream& /*stream*/, const TensorView& logits_TE,
                            const TensorView& lse_T, double factor,
                            const TensorView& dlogits_TE) {
  visit_floating(logits_TE.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto logits = rows_of<const A>(logits_TE);
    const auto dlogits = rows_of<A>(dlogits_TE);
    const A* const lse = lse_T.data<A>();
    const std::int64_t E = logits_TE.dim(1);
    for_tokens("router_z_loss_backward", logits_TE, [&](std::int64_t t) {
      const A slope = static_cast<A>(2 * factor) * lse[t];
      for (std::int64_t e = 0; e < E; ++e)
        dlogits[t][e] += slope * exponential(logits[t][e] - lse[t]);
    });
  });
}

}  // namespace trireme::kernels::host
