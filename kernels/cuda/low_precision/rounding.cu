// Roundings on a GPU: one element for each thread at a time.
// SPDX-License-Identifier: Apache-2.0
#include "base/philox.hpp"
#include "base/stochastic_rounding.hpp"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/low_precision/loss_counts.cuh"
#include "kernels/rounding.hpp"

namespace trireme::kernels::cuda {
namespace {

struct Round {
  float* x;
  TensorRun run;
  LowPrecisionFormat format;
  float scale, inverse;
  Random random;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    const auto bits = random.bits(static_cast<std::uint64_t>(run.index(c)));
    x[c] = scale * trireme::round_stochastic(x[c] * inverse, format,
                                             static_cast<std::uint32_t>(bits));
  }
};

struct Square {
  float* x;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    x[c] = x[c] * x[c];
  }
};

struct SquareRoot {
  float* x;
  float least;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    const float root = sqrtf(x[c]);
    x[c] = x[c] > 0.0f && root < least ? least : root;
  }
};

constexpr int threads_per_block = 256;

__global__ void count_rounding_losses_kernel(const float* x, std::int64_t n,
                                             RoundingLimits limits, TensorRun run,
                                             const float* scales, double* counts) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  LossCounts lost;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += step) {
    const float scale = scales == nullptr ? 1.0f : scales[run.block(i)];
    const float size = fabsf(x[i]);
    lost.note(size > limits.beyond * scale, size > 0.0f && size <= limits.least * scale);
  }
  add_losses(lost, counts);
}

template <class F>
void over(Stream& stream, const TensorView& x, const F& f) {
  launch_over_rows<1>(stream, {1, x.elements()}, true, f);
}

}  // namespace

void round_stochastic(Stream& stream, const TensorView& x_N, const TensorRun& run,
                      DType type, float scale, const RoundingKey& key) {
  const Random random(key.seed, key.stream, key.step);
  over(stream, x_N,
       Round{x_N.data<float>(), run, low_precision_format(type), scale, 1.0f / scale,
             random});
}

void count_rounding_losses(Stream& stream, const TensorView& x_N,
                           const RoundingLimits& limits, const TensorRun& run,
                           const TensorView& scales_S, const TensorView& counts_2) {
  Grid grid;
  grid.blocks.x = striding_blocks(stream, x_N.elements(), threads_per_block);
  grid.threads.x = threads_per_block;
  const float* const scales = scales_S.empty() ? nullptr : scales_S.data<float>();
  launch(stream, grid, &count_rounding_losses_kernel,
         static_cast<const float*>(x_N.data<float>()), x_N.elements(), limits, run,
         scales, counts_2.data<double>());
}

void square(Stream& stream, const TensorView& x) {
  over(stream, x, Square{x.data<float>()});
}

void square_root(Stream& stream, const TensorView& x, float least) {
  over(stream, x, SquareRoot{x.data<float>(), least});
}

}  // namespace trireme::kernels::cuda
