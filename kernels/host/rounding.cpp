// Roundings on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rounding.hpp"

#include <cmath>

#include "base/philox.hpp"
#include "base/stochastic_rounding.hpp"
#include "kernels/host/loss_counts.hpp"
#include "kernels/host/rows.hpp"

namespace trireme::kernels::host {
namespace {

// x[i] = f(i, x[i]) for every element.
template <class F>
void each(const char* label, const TensorView& x, std::int64_t grain, const F& f) {
  auto* const data = x.data<float>();
  for_ranges(label, x.elements(), grain, threads(),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i) data[i] = f(i, data[i]);
             });
}

}  // namespace

void round_stochastic(Stream& /*stream*/, const TensorView& x_N, const TensorRun& run,
                      DType type, float scale, const RoundingKey& key) {
  constexpr std::int64_t draws_per_task = 1024;
  const Random random(key.seed, key.stream, key.step);
  const LowPrecisionFormat format = low_precision_format(type);
  const float inverse = 1.0f / scale;
  each("round_stochastic", x_N, draws_per_task, [&](std::int64_t i, float x) {
    const auto bits = random.bits(static_cast<std::uint64_t>(run.index(i)));
    return scale * trireme::round_stochastic(x * inverse, format,
                                             static_cast<std::uint32_t>(bits));
  });
}

void count_rounding_losses(Stream& /*stream*/, const TensorView& x_N,
                           const RoundingLimits& limits, const TensorRun& run,
                           const TensorView& scales_S, const TensorView& counts_2) {
  const auto* const x = x_N.data<float>();
  const auto* const scales = scales_S.empty() ? nullptr : scales_S.data<float>();
  LossCounts counts;
  for_ranges("count_rounding_losses", x_N.elements(), elements_per_task, threads(),
             [&](std::int64_t begin, std::int64_t end) {
               LossCounts::Part part;
               for (std::int64_t i = begin; i < end; ++i) {
                 const float scale = scales == nullptr ? 1.0f : scales[run.block(i)];
                 const float size = std::abs(x[i]);
                 part.note(size > limits.beyond * scale,
                           size > 0.0f && size <= limits.least * scale);
               }
               counts.add(part);
             });
  counts.add_to(counts_2);
}

void square(Stream& /*stream*/, const TensorView& x) {
  each("square", x, elements_per_task, [](std::int64_t, float v) { return v * v; });
}

void square_root(Stream& /*stream*/, const TensorView& x, float least) {
  each("square_root", x, elements_per_task, [least](std::int64_t, float v) {
    const float root = std::sqrt(v);
    return v > 0.0f && root < least ? least : root;
  });
}

}  // namespace trireme::kernels::host
