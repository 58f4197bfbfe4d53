// Cross-entropy on the host: one read of the logits for statistics, one for the gradient.
// SPDX-License-Identifier: Apache-2.0
// Legend: C rows of the chunk, V columns on this rank, R ranks; L the logits' type, A
// their accumulator, which statistics are in.
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

template <class A>
struct Partial {
  A maximum = -std::numeric_limits<A>::infinity();
  double sum = 0;  // of exp(logit - maximum)
};

template <class L, class A>
A maximum_of(const L* x, std::int64_t n, A maximum) {
#pragma omp simd reduction(max : maximum)
  for (std::int64_t i = 0; i < n; ++i) {
    const A value = A(x[i]);
    maximum = value > maximum ? value : maximum;
  }
  return maximum;
}

template <class L, class A>
A sum_of_exponentials(const L* x, std::int64_t n, A reference) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i)
    sum += exponential_of_nonpositive(A(x[i]) - reference);
  return sum;
}

// The online softmax: when a block raises the maximum, the sum so far is rescaled.
// Source: Milakov and Gimelshein, 2018, algorithm 3.
template <class L>
Partial<Accumulator<L>> statistics_of(const L* logits, std::int64_t V) {
  using A = Accumulator<L>;
  Partial<A> row;
  for (std::int64_t begin = 0; begin < V; begin += block) {
    const std::int64_t n = std::min(block, V - begin);
    const A maximum = maximum_of(logits + begin, n, row.maximum);
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

// One row of the gradient: factor * exp(logit - maximum), less `scale` at the target.
template <class L, class A, class G>
void gradient_row(const L* logits, const A* stats, std::int64_t target, std::int64_t V,
                  double scale, double z_loss, G* dlogits) {
  using W = Accumulator<G>;
  const A reference = math::exponent_reference(stats[0]);
  const A factor = math::gradient_factor(stats[0], stats[1], scale, z_loss);
  const bool here = target >= 0 && target < V;
  const A target_logit = here ? A(logits[target]) : A(0);
#pragma omp simd
  for (std::int64_t v = 0; v < V; ++v)
    dlogits[v] = store<G>(static_cast<W>(
        math::scaled_exponential<HostMath>(factor, A(logits[v]), reference)));
  if (here) {
    const A p = math::scaled_exponential<HostMath>(factor, target_logit, reference);
    dlogits[target] = store<G>(static_cast<W>(p - static_cast<A>(scale)));
  }
}

}  // namespace

void cross_entropy_statistics(Stream& /*stream*/, const TensorView& logits_CV,
                              const TensorView& targets_C, std::int64_t first,
                              const TensorView& stats_C3) {
  visit_floating(logits_CV.dtype(), [&]<class L>(L) {
    using A = Accumulator<L>;
    const auto logits = rows_of<const L>(logits_CV);
    const auto stats = rows_of<A>(stats_C3);
    const std::int32_t* const targets = targets_C.data<std::int32_t>();
    const std::int64_t C = logits_CV.dim(0), V = logits_CV.dim(1);
    for_rows("cross_entropy_statistics", C, V, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const auto row = statistics_of(logits[c], V);
        const std::int64_t target = targets[c] - first;
        const bool here = target >= 0 && target < V;  // ignored ones are below 0
        stats[c][0] = row.maximum;
        stats[c][1] = static_cast<A>(row.sum);
        stats[c][2] = here ? A(logits[c][target]) : A(0);
      }
    });
  });
}

void cross_entropy_combine(Stream& /*stream*/, const TensorView& stats_RC3,
                           const TensorView& stats_C3) {
  math::visit_statistics(stats_RC3.dtype(), [&]<class A>(A) {
    const A* const parts = stats_RC3.data<A>();
    const auto stats = rows_of<A>(stats_C3);
    const std::int64_t R = stats_RC3.dim(0), C = stats_RC3.dim(1);
    for (std::int64_t c = 0; c < C; ++c) {
      A maximum = -std::numeric_limits<A>::infinity();
      for (std::int64_t r = 0; r < R; ++r)
        maximum = std::max(maximum, parts[(r * C + c) * 3]);
      const double reference = static_cast<double>(math::exponent_reference(maximum));
      double sum = 0, target = 0;
      for (std::int64_t r = 0; r < R; ++r) {
        const A* part = parts + (r * C + c) * 3;
        sum += static_cast<double>(part[1]) *
               std::exp(static_cast<double>(part[0]) - reference);
        target += static_cast<double>(part[2]);
      }
      stats[c][0] = maximum;
      stats[c][1] = static_cast<A>(sum);
      stats[c][2] = static_cast<A>(target);
    }
  });
}

void cross_entropy_loss(Stream& /*stream*/, const TensorView& stats_C3,
                        const TensorView& targets_C, double z_loss,
                        const TensorView& loss_C) {
  math::visit_statistics(stats_C3.dtype(), [&]<class A>(A) {
    const auto stats = rows_of<const A>(stats_C3);
    const std::int32_t* const targets = targets_C.data<std::int32_t>();
    A* const loss = loss_C.data<A>();
    for (std::int64_t c = 0; c < stats_C3.dim(0); ++c) {
      const double value =
          math::token_loss(stats[c][0], stats[c][1], stats[c][2], z_loss);
      loss[c] = targets[c] < 0 ? A(0) : static_cast<A>(value);
    }
  });
}

void cross_entropy_gradient(Stream& /*stream*/, const TensorView& logits_CV,
                            const TensorView& stats_C3, const TensorView& targets_C,
                            std::int64_t first, const LossScale& loss_scale,
                            double z_loss, const TensorView& dlogits_CV) {
  const double scale = loss_scale.value();
  const double* const factors =
      loss_scale.factors().empty() ? nullptr : loss_scale.factors().data<double>();
  const std::int64_t C = logits_CV.dim(0), V = logits_CV.dim(1);
  const std::int32_t* const targets = targets_C.data<std::int32_t>();
  visit_floating(logits_CV.dtype(), [&]<class L>(L) {
    visit_floating(dlogits_CV.dtype(), [&]<class G>(G) {
      const auto logits = rows_of<const L>(logits_CV);
      const auto stats = rows_of<const Accumulator<L>>(stats_C3);
      const auto dlogits = rows_of<G>(dlogits_CV);
      for_rows("cross_entropy_gradient", C, V, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c) {
          if (targets[c] < 0)
            std::fill_n(dlogits[c], V, G(0.0f));
          else
            gradient_row(logits[c], stats[c], targets[c] - first, V,
                         factors == nullptr ? scale : scale * factors[c], z_loss,
                         dlogits[c]);
        }
      });
    });
  });
}

}  // namespace trireme::kernels::host
