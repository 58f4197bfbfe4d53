// What the norms' kernels share: the threads of a row, and a row in their registers.
// SPDX-License-Identifier: Apache-2.0
// It stays there between the passes over it. T rows, D row length.
#pragma once

#include <cuda_machine/registers.cuh>

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/rows.cuh"

namespace trireme::kernels::cuda {

// The threads of a row: a warp (of blocks of 32 x team_warps threads) for short rows,
// else the block. Which it is depends on D, hence also the order of the sums.
inline constexpr int team_warps = 8;
template <bool by_warp>
struct Team {
  // What is made of it, columns above all, is made for each row anew: registers hold
  // rows.
  __device__ static int lane() { return recomputed(static_cast<int>(threadIdx.x)); }
  __device__ static int size() {
    return by_warp ? warp_size : static_cast<int>(blockDim.x);
  }
  __device__ static std::int64_t first_row() {
    return by_warp ? std::int64_t{blockIdx.x} * team_warps + threadIdx.y
                   : std::int64_t{blockIdx.x};
  }
  __device__ static std::int64_t row_step() {
    return std::int64_t{gridDim.x} * (by_warp ? team_warps : 1);
  }
  // Over the team; all its threads call it and get the sum.
  template <class A>
  __device__ static A sum(A x) {
    if constexpr (by_warp) {
      return warp_sum(x);
    } else {
      return block_sum(x);
    }
  }

  // f(c, g) for the groups of W columns, from c on, that are this thread's: at most G of
  // them, or as many as there are if G is 0.
  template <int W, int G, class F>
  __device__ static void for_groups(std::int64_t D, const F& f) {
    if constexpr (G > 0) {
#pragma unroll
      for (int g = 0; g < G; ++g) {
        const std::int64_t c = (std::int64_t{g} * size() + lane()) * W;
        if (c < D) f(c, g);
      }
    } else {
      for (std::int64_t c = std::int64_t{lane()} * W; c < D;
           c += std::int64_t{size()} * W)
        f(c, 0);
    }
  }
};

// The sum of rows that a norm makes before it begins. bias may be null.
template <class T>
struct SumOfRows {
  Rows<T> residual, branch;
  const T* bias = nullptr;

  // Added as AddBias (elementwise.cu) does it.
  template <int W>
  __device__ Group<T, W> at(std::int64_t t, std::int64_t c) const {
    auto sum = load_group<W>(residual[t] + c);
    const auto other = load_group<W>(branch[t] + c);
    Group<T, W> third{};
    if (bias != nullptr) third = load_group<W>(bias + c);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      Wide<T> x = widen(sum.x[i]) + widen(other.x[i]);
      if (bias != nullptr) x += widen(third.x[i]);
      sum.x[i] = narrow<T>(x);
    }
    return sum;
  }
};

// This thread's groups of a row: kept in registers, or read again each time if G is 0.
// With `words` elements of 16 bits share a register, and are taken apart in each pass:
// the compiler likes to give each its own, which a row of many groups has no room for.
template <class T, int W, int G, bool words = false>
class TeamRow {
 public:
  template <class Team>
  __device__ TeamRow(Team, const T* row, std::int64_t D) : row_(row) {
    if constexpr (G > 0)
      Team::template for_groups<W, G>(
          D, [&](std::int64_t c, int g) { groups_[g] = load_group<W>(row + c); });
  }
  // Row t of a sum, which is also written to `row`.
  template <class Team>
  __device__ TeamRow(Team, const SumOfRows<T>& sum, std::int64_t t, T* row,
                     std::int64_t D)
      : row_(row) {
    Team::template for_groups<W, G>(D, [&](std::int64_t c, int g) {
      const auto group = sum.template at<W>(t, c);
      store_group(row + c, group);
      if constexpr (G > 0) groups_[g] = group;
    });
  }
  __device__ Group<T, W> at(std::int64_t c, int g) const {
    if constexpr (G > 0) {
      return words ? recomputed(groups_[g]) : groups_[g];
    } else {
      return load_group<W>(row_ + c);
    }
  }

 private:
  const T* row_;
  Group<T, W> groups_[G > 0 ? G : 1];
};

// Threads of a block that holds a row of D elements by G groups of W to a thread.
inline std::int64_t team_threads(std::int64_t D, std::int64_t W, std::int64_t G) {
  return divide_up(divide_up(D, W * G), warp_size) * warp_size;
}

}  // namespace trireme::kernels::cuda
