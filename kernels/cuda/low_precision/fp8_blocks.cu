// FP8 by 128 x 128 blocks on a GPU: one element for each thread at a time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/low_precision/block_maxima.cuh"
#include "kernels/fp8_blocks.hpp"

namespace trireme::kernels::cuda {
namespace {

struct Amax {
  const float* x;
  unsigned* amaxes;
  TensorRun run;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    add_block_maxima<W>(x, amaxes, c, [this](std::int64_t i) { return run.block(i); });
  }
};

struct Encode {
  const float* x;
  const float* scales;
  unsigned char* codes;
  TensorRun run;
  Fp8Format format;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    codes[c] = fp8_encode(x[c] * (1.0f / scales[run.block(c)]), format);
  }
};

template <class T>
struct Decode {
  const unsigned char* codes;
  const float* scales;
  T* y;
  TensorRun run;
  Fp8Format format;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    const float value = fp8_decode(codes[c], format) * scales[run.block(c)];
    y[c] = narrow<T>(static_cast<Wide<T>>(value));
  }
};

}  // namespace

void amax_of_blocks(Stream& stream, const TensorView& x_N, const TensorRun& run,
                    const TensorView& amaxes_S) {
  const Amax f{x_N.data<float>(), static_cast<unsigned*>(amaxes_S.raw()), run};
  launch_over_rows<4>(stream, {1, x_N.elements()}, true, f);
}

void encode_blocks(Stream& stream, const TensorView& x_N, const TensorRun& run,
                   Fp8Format format, const TensorView& scales_S,
                   const TensorView& codes_N) {
  const Encode f{x_N.data<float>(), scales_S.data<float>(),
                 static_cast<unsigned char*>(codes_N.raw()), run, format};
  launch_over_rows<1>(stream, {1, x_N.elements()}, true, f);
}

void decode_blocks(Stream& stream, const TensorView& codes_N, const TensorRun& run,
                   Fp8Format format, const TensorView& scales_S, const TensorView& y_N) {
  visit_floating(y_N.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Decode<T> f{static_cast<const unsigned char*>(codes_N.raw()),
                      scales_S.data<float>(), elements_of<H>(y_N), run, format};
    launch_over_rows<1>(stream, {1, y_N.elements()}, true, f);
  });
}

}  // namespace trireme::kernels::cuda
