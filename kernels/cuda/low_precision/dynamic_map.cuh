// The map of the dynamic type in shared memory, where lanes look up different codes.
// SPDX-License-Identifier: Apache-2.0
// As an argument of a kernel it lies in constant memory, which serves the addresses of a
// warp one after the other. All threads of a block call of_block(), once.
#pragma once

#include "base/code_book.hpp"
#include "kernels/cuda/common/launch.cuh"

namespace trireme::kernels::cuda {

// f(code) for all 256 codes, shared among the threads of the block; then all is there.
template <class F>
__device__ inline void for_codes_of_block(const F& f) {
  const unsigned threads = blockDim.x * blockDim.y;
  for (unsigned code = threadIdx.y * blockDim.x + threadIdx.x; code < 256;
       code += threads)
    f(code);
  __syncthreads();
}

// The numbers of all codes.
struct MapNumbers {
  const float* numbers;

  __device__ static MapNumbers of_block(const DynamicMap& map) {
    __shared__ float numbers[256];
    for_codes_of_block([&](unsigned code) { numbers[code] = map.numbers[code]; });
    return {numbers};
  }
};

// The bounds between neighbours, as DynamicMap::encode() computes them: that of a code
// and the one below it.
struct MapBounds {
  const float* bounds;

  __device__ static MapBounds of_block(const DynamicMap& map) {
    __shared__ float bounds[256];
    for_codes_of_block([&](unsigned code) {
      const unsigned below = code == 0 ? 0 : code - 1;
      bounds[code] = (map.numbers[below] + map.numbers[code]) / 2.0f;
    });
    return {bounds};
  }
  // As DynamicMap::encode().
  __device__ unsigned encode(float y) const {
    unsigned code = 0;
#pragma unroll
    for (unsigned step = 128; step > 0; step /= 2)
      if (bounds[code + step] < y) code += step;
    return code;
  }
};

inline constexpr int map_threads = 256;

// f.at(table, i) for all i < n; Table: of the two above.
template <class Table, class F>
__global__ void __launch_bounds__(map_threads)
    over_codes(DynamicMap map, std::int64_t n, F f) {
  const Table table = Table::of_block(map);
  const std::int64_t step = std::int64_t{gridDim.x} * map_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * map_threads + threadIdx.x; i < n;
       i += step)
    f.at(table, i);
}

// Queues it, with no more blocks than the GPU runs at a time: each makes its table.
template <class Table, class F>
void launch_over_codes(Stream& stream, DynamicType type, std::int64_t n, const F& f) {
  if (n <= 0) return;
  launch(stream, Grid{{striding_blocks(stream, n, map_threads, 1)}, {map_threads}},
         over_codes<Table, F>, dynamic_map(type), n, f);
}

}  // namespace trireme::kernels::cuda
