// Roundings on a GPU: one element for each thread at a time.
// SPDX-License-Identifier: Apache-2.0
#include "base/philox.hpp"
#include "base/stochastic_rounding.hpp"
#include "kernels/cuda/rounding.hpp"
#include "kernels/cuda/rows.cuh"

namespace trireme::kernels::cuda {
namespace {

struct Round {
  float* x;
  TensorRun run;
  NarrowFormat format;
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

template <class F>
void over(Stream& stream, const TensorView& x, const F& f) {
  launch_over_rows<1>(stream, {1, x.elements()}, true, f);
}

}  // namespace

void round_stochastic(Stream& stream, const TensorView& x_N, const TensorRun& run,
                      DType type, float scale, const RoundingKey& key) {
  const Random random(key.seed, key.stream, key.step);
  over(stream, x_N,
       Round{x_N.data<float>(), run, narrow_format(type), scale, 1.0f / scale, random});
}

void square(Stream& stream, const TensorView& x) {
  over(stream, x, Square{x.data<float>()});
}

void square_root(Stream& stream, const TensorView& x, float least) {
  over(stream, x, SquareRoot{x.data<float>(), least});
}

}  // namespace trireme::kernels::cuda
