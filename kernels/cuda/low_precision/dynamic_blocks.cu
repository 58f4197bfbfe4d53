// The dynamic type by blocks of a tensor on a GPU: one element for each thread at a time.
// SPDX-License-Identifier: Apache-2.0
#include "base/block_scale.hpp"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/low_precision/block_maxima.cuh"
#include "kernels/cuda/low_precision/dynamic_map.cuh"
#include "kernels/dynamic_blocks.hpp"

namespace trireme::kernels::cuda {
namespace {

struct Absmax {
  const float* x;
  unsigned* absmax;
  TensorRun run;
  DynamicBlocks blocks;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    add_block_maxima<W>(x, absmax, c, [this](std::int64_t i) {
      return run.index(i) / dynamic_block - blocks.first;
    });
  }
};

struct Encode {
  const float* x;
  const float* absmax;
  unsigned char* codes;
  TensorRun run;
  DynamicBlocks blocks;
  __device__ void at(const MapBounds& map, std::int64_t c) const {
    const std::int64_t block = run.index(c) / dynamic_block;
    const BlockScale scale =
        block_scale(absmax[block - blocks.first], blocks.whole(block));
    codes[c] = static_cast<unsigned char>(map.encode(scale.scaled(x[c])));
  }
};

struct Decode {
  const unsigned char* codes;
  const float* absmax;
  float* y;
  TensorRun run;
  DynamicBlocks blocks;
  __device__ void at(const MapNumbers& map, std::int64_t c) const {
    y[c] = map.numbers[codes[c]] * absmax[run.index(c) / dynamic_block - blocks.first];
  }
};

}  // namespace

void absmax_of_run(Stream& stream, const TensorView& x_N, const TensorRun& run,
                   DynamicBlocks blocks, const TensorView& absmax_B) {
  const Absmax f{x_N.data<float>(), static_cast<unsigned*>(absmax_B.raw()), run, blocks};
  launch_over_rows<4>(stream, {1, x_N.elements()}, true, f);
}

void encode_run(Stream& stream, const TensorView& x_N, const TensorRun& run,
                DynamicType type, DynamicBlocks blocks, const TensorView& absmax_B,
                const TensorView& codes_N) {
  const Encode f{x_N.data<float>(), absmax_B.data<float>(),
                 static_cast<unsigned char*>(codes_N.raw()), run, blocks};
  launch_over_codes<MapBounds>(stream, type, x_N.elements(), f);
}

void decode_run(Stream& stream, const TensorView& codes_N, const TensorRun& run,
                DynamicType type, DynamicBlocks blocks, const TensorView& absmax_B,
                const TensorView& y_N) {
  const Decode f{static_cast<const unsigned char*>(codes_N.raw()), absmax_B.data<float>(),
                 y_N.data<float>(), run, blocks};
  launch_over_codes<MapNumbers>(stream, type, y_N.elements(), f);
}

}  // namespace trireme::kernels::cuda
