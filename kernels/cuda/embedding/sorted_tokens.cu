// Stable radix sort of (row, token) by row, eight bits at a time from the lowest.
// SPDX-License-Identifier: Apache-2.0
// The tiles count their digits, one block adds the counts up, the tiles place their
// pairs. T tokens.
#include <bit>
#include <limits>

#include "base/split.hpp"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/types.cuh"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/embedding/sorted_tokens.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int digit_bits = 8, digits = 1 << digit_bits;
constexpr int tile_warps = 8, tile_threads = tile_warps * warp_size;
constexpr int rounds = 16;                      // pairs to a thread
constexpr int warp_pairs = rounds * warp_size;  // neighbours
constexpr int tile_pairs = tile_warps * warp_pairs;
static_assert(tile_threads == digits);

// The pairs that a pass reads: of the first pass those of the tokens themselves.
struct Pairs {
  const std::int32_t* index_T = nullptr;  // of the first pass
  std::int64_t first = 0, R = 0;
  const std::uint32_t* row_T = nullptr;
  const std::int32_t* token_T = nullptr;

  __device__ std::uint32_t row(std::int64_t i) const {
    if (index_T == nullptr) return row_T[i];
    const std::int64_t row = index_T[i] - first;
    return static_cast<std::uint32_t>(row >= 0 && row < R ? row : R);
  }
  __device__ std::int32_t token(std::int64_t i) const {
    return index_T == nullptr ? token_T[i] : static_cast<std::int32_t>(i);
  }
};

__device__ inline unsigned digit_of(std::uint32_t row, int shift) {
  return (row >> shift) & (digits - 1);
}

// counts[digit, tile]. Integers: the order in which they are counted does not show.
__global__ void count_digits(Pairs pairs, std::int64_t T, int shift,
                             std::int32_t* counts) {
  __shared__ std::int32_t count[digits];
  count[threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t begin = std::int64_t{blockIdx.x} * tile_pairs;
  for (int i = static_cast<int>(threadIdx.x); i < tile_pairs; i += tile_threads) {
    if (begin + i < T) atomicAdd(&count[digit_of(pairs.row(begin + i), shift)], 1);
  }
  __syncthreads();
  counts[std::int64_t{threadIdx.x} * gridDim.x + blockIdx.x] = count[threadIdx.x];
}

// Sum of x over the lanes up to this one.
__device__ inline std::int32_t sum_up_to_lane(std::int32_t x, int lane) {
#pragma unroll
  for (int distance = 1; distance < warp_size; distance *= 2) {
    const std::int32_t other = __shfl_up_sync(all_lanes, x, distance);
    if (lane >= distance) x += other;
  }
  return x;
}

// One block: every count becomes the sum of those before it.
__global__ void scan_counts(std::int32_t* counts, std::int64_t n) {
  __shared__ std::int32_t of_warps[warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  std::int32_t before = 0;
  for (std::int64_t begin = 0; begin < n; begin += blockDim.x) {
    const std::int64_t i = begin + threadIdx.x;
    const std::int32_t count = i < n ? counts[i] : 0;
    const std::int32_t up_to = sum_up_to_lane(count, lane);
    if (lane == warp_size - 1) of_warps[warp] = up_to;
    __syncthreads();
    const std::int32_t up_to_warp = sum_up_to_lane(of_warps[lane], lane);
    const std::int32_t before_warp =
        __shfl_sync(all_lanes, up_to_warp - of_warps[lane], warp);
    if (i < n) counts[i] = before + before_warp + up_to - count;
    before += __shfl_sync(all_lanes, up_to_warp, warp_size - 1);
    __syncthreads();  // of_warps is written again
  }
}

// The lanes among `valid` with this lane's digit.
__device__ inline unsigned lanes_with(unsigned digit, unsigned valid) {
  unsigned same = valid;
#pragma unroll
  for (int bit = 0; bit < digit_bits; ++bit) {
    const bool set = (digit >> bit & 1u) != 0;
    const unsigned votes = __ballot_sync(all_lanes, set);
    same &= set ? votes : ~votes;
  }
  return same;
}

// starts[digit, tile]: where the tile's first pair with that digit goes. Each warp ranks
// its neighbouring pairs by digit, then learns where its own begin.
__global__ void place_pairs(Pairs pairs, std::int64_t T, int shift,
                            const std::int32_t* starts, std::uint32_t* row_T,
                            std::int32_t* token_T) {
  __shared__ std::int32_t next[tile_warps][digits];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  for (int w = 0; w < tile_warps; ++w) next[w][threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t begin =
      std::int64_t{blockIdx.x} * tile_pairs + warp * warp_pairs + lane;
  std::uint32_t row[rounds];
  std::int32_t rank[rounds];
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const std::int64_t i = begin + r * warp_size;
    if (i - lane >= T) break;  // the whole warp
    row[r] = i < T ? pairs.row(i) : 0;
    const unsigned digit = digit_of(row[r], shift);
    const unsigned same = lanes_with(digit, __ballot_sync(all_lanes, i < T));
    const int lower = __popc(same & ((1u << lane) - 1u));
    rank[r] = next[warp][digit] + lower;
    __syncwarp();
    if (i < T && lower == 0) next[warp][digit] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
  std::int32_t start = starts[std::int64_t{threadIdx.x} * gridDim.x + blockIdx.x];
  for (int w = 0; w < tile_warps; ++w) {
    const std::int32_t count = next[w][threadIdx.x];
    next[w][threadIdx.x] = start;
    start += count;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const std::int64_t i = begin + r * warp_size;
    if (i >= T) break;
    const std::int32_t to = next[warp][digit_of(row[r], shift)] + rank[r];
    row_T[to] = row[r];
    token_T[to] = pairs.token(i);
  }
}

}  // namespace

std::int64_t sort_tokens_workspace(std::int64_t T) {
  return (4 * T + std::int64_t{digits} * divide_up(T, tile_pairs)) *
         static_cast<std::int64_t>(sizeof(std::int32_t));
}

SortedTokens sort_tokens(Stream& stream, const TensorView& index_T, std::int64_t first,
                         std::int64_t R) {
  const std::int64_t T = index_T.dim(0), tiles = divide_up(T, tile_pairs);
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  require(T <= most && R < most,
          "embedding: {} tokens and {} rows are more than a GPU's "
          "kernels count",
          T, R);
  const TensorView memory =
      workspace(stream, DType::i32, {4 * T + std::int64_t{digits} * tiles});
  std::int32_t* const words = memory.data<std::int32_t>();
  std::int32_t* const counts = words + 4 * T;
  const Grid by_tile{dim3(extent(tiles)), dim3(tile_threads)};
  Pairs pairs{elements_of<std::int32_t>(index_T), first, R};
  for (int shift = 0; shift == 0 || R >> shift != 0; shift += digit_bits) {
    std::int32_t* const out = words + (shift / digit_bits % 2) * 2 * T;
    auto* const row_T = reinterpret_cast<std::uint32_t*>(out);
    launch(stream, by_tile, count_digits, pairs, T, shift, counts);
    launch(stream, Grid{dim3(1), dim3(1024)}, scan_counts, counts, digits * tiles);
    launch(stream, by_tile, place_pairs, pairs, T, shift, counts, row_T, out + T);
    pairs = {nullptr, first, R, row_T, out + T};
  }
  return {pairs.row_T, pairs.token_T};
}

}  // namespace trireme::kernels::cuda
