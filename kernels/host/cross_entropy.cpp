// Cross-entropy on the host: a pass for the statistics, and one for the gradient.
// SPDX-License-Identifier: Apache-2.0
// C rows of the chunk, V columns on this rank, R ranks; L the logits' type.
#include "kernels/cross_entropy.hpp"

#include <cmath>
#include <limits>

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/math/softmax.hpp"

namespace trireme::kernels::host {
namespace {

// Columns between two looks at the running maximum: a block stays in the first-level
// cache between its maximum and its sum.
constexpr std::int64_t block = 1024;

template <class L>
struct Partial {
  L maximum = -std::numeric_limits<L>::infinity();
  double sum = 0;  // of exp(logit - maximum)
};

template <class L>
L maximum_of(const L* x, std::int64_t n, L maximum) {
#pragma omp simd reduction(max : maximum)
  for (std::int64_t i = 0; i < n; ++i) maximum = x[i] > maximum ? x[i] : maximum;
  return maximum;
}

template <class L>
L sum_of_exponentials(const L* x, std::int64_t n, L reference) {
  L sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i)
    sum += exponential_of_nonpositive(x[i] - reference);
  return sum;
}

// The online softmax: when a block raises the maximum, the sum so far is rescaled.
// Source: Milakov and Gimelshein, 2018, algorithm 3.
template <class L>
Partial<L> statistics_of(const L* logits, std::int64_t V) {
  Partial<L> row;
  for (std::int64_t begin = 0; begin < V; begin += block) {
    const std::int64_t n = std::min(block, V - begin);
    const L maximum = maximum_of(logits + begin, n, row.maximum);
    if (maximum > row.maximum) {
      row.sum *=
          std::exp(static_cast<double>(row.maximum) - static_cast<double>(maximum));
      row.maximum = maximum;
    }
    row.sum += static_cast<double>(
        sum_of_exponentials(logits + begin, n, math::exponent_reference(maximum)));
  }
  return row;
}

// Calls f with the type of the logits: f32 or f64.
template <class F>
void visit_logits(DType dtype, const F& f) {
  if (dtype == DType::f64)
    f(double{});
  else
    f(float{});
}

// One row of the gradient: factor * exp(logit - maximum), less `scale` at the target.
template <class L, class G>
void gradient_row(const L* logits, const L* stats, std::int64_t target, std::int64_t V,
                  double scale, double z_loss, G* dlogits) {
  using A = Accumulator<G>;
  const L reference = math::exponent_reference(stats[0]);
  const L factor = math::gradient_factor(stats[0], stats[1], scale, z_loss);
  const bool here = target >= 0 && target < V;
  const L target_logit = here ? logits[target] : L(0);
#pragma omp simd
  for (std::int64_t v = 0; v < V; ++v)
    dlogits[v] = store<G>(
        static_cast<A>(math::scaled_exponential<HostMath>(factor, logits[v], reference)));
  if (here) {
    const L p = math::scaled_exponential<HostMath>(factor, target_logit, reference);
    dlogits[target] = store<G>(static_cast<A>(p - static_cast<L>(scale)));
  }
}

}  // namespace

void cross_entropy_statistics(Stream& /*stream*/, const TensorView& logits_CV,
                              const TensorView& targets_C, std::int64_t first,
                              const TensorView& stats_C3) {
  visit_logits(logits_CV.dtype(), [&]<class L>(L) {
    const auto logits = rows_of<const L>(logits_CV);
    const auto stats = rows_of<L>(stats_C3);
    const std::int32_t* const targets = targets_C.data<std::int32_t>();
    const std::int64_t C = logits_CV.dim(0), V = logits_CV.dim(1);
    for_rows("cross_entropy_statistics", C, V, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const auto row = statistics_of(logits[c], V);
        const std::int64_t target = targets[c] - first;
        const bool here = target >= 0 && target < V;  // ignored ones are below 0
        stats[c][0] = row.maximum;
        stats[c][1] = static_cast<L>(row.sum);
        stats[c][2] = here ? logits[c][target] : L(0);
      }
    });
  });
}

void cross_entropy_combine(Stream& /*stream*/, const TensorView& stats_RC3,
                           const TensorView& stats_C3) {
  visit_logits(stats_RC3.dtype(), [&]<class L>(L) {
    const L* const parts = stats_RC3.data<L>();
    const auto stats = rows_of<L>(stats_C3);
    const std::int64_t R = stats_RC3.dim(0), C = stats_RC3.dim(1);
    for (std::int64_t c = 0; c < C; ++c) {
      L maximum = -std::numeric_limits<L>::infinity();
      for (std::int64_t r = 0; r < R; ++r)
        maximum = std::max(maximum, parts[(r * C + c) * 3]);
      const double reference = static_cast<double>(math::exponent_reference(maximum));
      double sum = 0, target = 0;
      for (std::int64_t r = 0; r < R; ++r) {
        const L* part = parts + (r * C + c) * 3;
        sum += static_cast<double>(part[1]) *
               std::exp(static_cast<double>(part[0]) - reference);
        target += static_cast<double>(part[2]);
      }
      stats[c][0] = maximum;
      stats[c][1] = static_cast<L>(sum);
      stats[c][2] = static_cast<L>(target);
    }
  });
}

void cross_entropy_loss(Stream& /*stream*/, const TensorView& stats_C3,
                        const TensorView& targets_C, double z_loss,
                        const TensorView& loss_C) {
  visit_logits(stats_C3.dtype(), [&]<class L>(L) {
    const auto stats = rows_of<const L>(stats_C3);
    const std::int32_t* const targets = targets_C.data<std::int32_t>();
    L* const loss = loss_C.data<L>();
    for (std::int64_t c = 0; c < stats_C3.dim(0); ++c) {
      const double value =
          math::token_loss(stats[c][0], stats[c][1], stats[c][2], z_loss);
      loss[c] = targets[c] < 0 ? L(0) : static_cast<L>(value);
    }
  });
}

void cross_entropy_gradient(Stream& /*stream*/, const TensorView& logits_CV,
                            const TensorView& stats_C3, const TensorView& targets_C,
                            std::int64_t first, const LossScale& loss_scale,
                            double z_loss, const TensorView& dlogits_CV) {
  const double scale = loss_scale.value();
  const std::int64_t C = logits_CV.dim(0), V = logits_CV.dim(1);
  const std::int32_t* const targets = targets_C.data<std::int32_t>();
  visit_logits(logits_CV.dtype(), [&]<class L>(L) {
    visit_floating(dlogits_CV.dtype(), [&]<class G>(G) {
      const auto logits = rows_of<const L>(logits_CV);
      const auto stats = rows_of<const L>(stats_C3);
      const auto dlogits = rows_of<G>(dlogits_CV);
      for_rows("cross_entropy_gradient", C, V, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c) {
          if (targets[c] < 0)
            std::fill_n(dlogits[c], V, G(0.0f));
          else
            gradient_row(logits[c], stats[c], targets[c] - first, V, scale, z_loss,
                         dlogits[c]);
        }
      });
    });
  });
}

}  // namespace trireme::kernels::host
