// Table lookup and its gradient on a GPU. T tokens, R rows of the table, D columns.
// SPDX-License-Identifier: Apache-2.0
//
// The gradient has many tokens to one row, and their order must be that of the tokens.
// Atomics would leave it open; a scan of all tokens by every row or column is T R or T D
// work on too few threads. So the tokens are sorted by row, stably, and one warp adds the
// tokens of a row, and of 32 packs of columns, in their order: the bits are the host's.
// The sort moves some 30 bytes a token, beside which D elements are many. A row that very
// many tokens name is added by D / 256 warps (bf16) alone.
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/embedding/demand.hpp"
#include "kernels/cuda/embedding/sorted_tokens.hpp"
#include "kernels/embedding.hpp"

namespace trireme::kernels::cuda {
namespace {

template <class T, bool accumulate>
struct LookUp {
  Rows<T> table, y;
  const std::int32_t* index;
  std::int64_t first, R;
  template <int W>
  __device__ void at(std::int64_t t, std::int64_t c) const {
    const std::int64_t row = index[t] - first;
    const bool here = row >= 0 && row < R;
    if (accumulate && !here) return;
    Group<T, W> group;
    if (here) {
      group = load_group<W>(table[row] + c);
    } else {
#pragma unroll
      for (int i = 0; i < W; ++i) group.x[i] = narrow<T>(0.0f);
    }
    if constexpr (accumulate) {
      const auto before = load_group<W>(y[t] + c);
#pragma unroll
      for (int i = 0; i < W; ++i)
        group.x[i] = narrow<T>(widen(before.x[i]) + widen(group.x[i]));
    }
    store_group(y[t] + c, group);
  }
};

constexpr int batch = 8;  // tokens whose loads are on their way together
constexpr int block_warps = 8;

// sum += the tokens that lanes [0, count) hold, in their order.
template <int W, class T>
__device__ inline void add_tokens(Group<Wide<T>, W>& sum, const Rows<T>& dy,
                                  std::int64_t c, bool inside, std::int32_t token,
                                  int count) {
  for (int j = 0; j < count; j += batch) {
    Group<T, W> from[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      const std::int32_t t = __shfl_sync(all_lanes, token, (j + k) % warp_size);
      if (inside && j + k < count) from[k] = load_group<W>(dy[t] + c);
    }
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      if (!inside || j + k >= count) continue;
#pragma unroll
      for (int i = 0; i < W; ++i) sum.x[i] += widen(from[k].x[i]);
    }
  }
}

// A warp for each pair; those that do not begin a row's run have nothing to do.
template <int W, class T>
__global__ void add_runs(SortedTokens sorted, std::int64_t n, Rows<T> dy,
                         Rows<Wide<T>> dtable, std::int64_t R, std::int64_t D) {
  const std::int64_t head = std::int64_t{blockIdx.x} * block_warps + threadIdx.y;
  if (head >= n) return;
  const std::uint32_t row = sorted.row_T[head];
  if (row >= R || (head > 0 && sorted.row_T[head - 1] == row)) return;
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t step = std::int64_t{gridDim.y} * warp_size * W;
  for (std::int64_t begin = std::int64_t{blockIdx.y} * warp_size * W; begin < D;
       begin += step) {
    const std::int64_t c = begin + lane * W;
    const bool inside = c < D;
    Group<Wide<T>, W> sum{};
    if (inside) sum = load_group<W>(dtable[row] + c);
    int count = warp_size;
    for (std::int64_t at = head; count == warp_size; at += warp_size) {
      const std::int64_t i = at + lane;
      const bool mine = i < n && sorted.row_T[i] == row;
      const std::int32_t token = mine ? sorted.token_T[i] : 0;
      count = __popc(__ballot_sync(all_lanes, mine));
      add_tokens<W>(sum, dy, c, inside, token, count);
    }
    if (inside) store_group(dtable[row] + c, sum);
  }
}

}  // namespace

void embedding(Stream& stream, const TensorView& index_T, const TensorView& table_RD,
               std::int64_t first, Accumulate accumulate, const TensorView& y_TD) {
  visit_floating(y_TD.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Area area{y_TD.dim(0), y_TD.dim(1)};
    const bool aligned = starts_are_aligned(table_RD) && starts_are_aligned(y_TD);
    const LookUp<T, false> f{rows_of<H>(table_RD), rows_of<H>(y_TD),
                             elements_of<std::int32_t>(index_T), first, table_RD.dim(0)};
    if (accumulate == Accumulate::yes) {
      const LookUp<T, true> add{f.table, f.y, f.index, f.first, f.R};
      launch_over_rows<pack_elements<T>>(stream, area, aligned, add);
    } else {
      launch_over_rows<pack_elements<T>>(stream, area, aligned, f);
    }
  });
}

std::int64_t embedding_backward_workspace(const TensorView& dy_TD,
                                          const TensorView& dtable_RD) {
  const bool any = dy_TD.elements() > 0 && dtable_RD.dim(0) > 0;
  return any ? sort_tokens_workspace(dy_TD.dim(0)) : 0;
}

void embedding_backward(Stream& stream, const TensorView& dy_TD,
                        const TensorView& index_T, std::int64_t first,
                        const TensorView& dtable_RD) {
  const std::int64_t T = dy_TD.dim(0), R = dtable_RD.dim(0), D = dy_TD.dim(1);
  if (T == 0 || R == 0 || D == 0) return;
  const SortedTokens sorted = sort_tokens(stream, index_T, first, R);
  visit_floating(dy_TD.dtype(), [&]<class H>(H) {
    using E = DeviceType<H>;
    using A = Wide<E>;
    constexpr int W = pack_elements<E>;
    constexpr std::int64_t most_in_y = 65535;
    const bool packed = is_packed(dy_TD) && is_packed(dtable_RD);
    const std::int64_t tiles = divide_up(D, warp_size * (packed ? W : 1));
    Grid grid;
    grid.threads = dim3(warp_size, block_warps);
    grid.blocks =
        dim3(extent(divide_up(T, block_warps)), extent(std::min(tiles, most_in_y)));
    launch(stream, grid, packed ? add_runs<W, E> : add_runs<1, E>, sorted, T,
           rows_of<H>(dy_TD), rows_of<A>(dtable_RD), R, D);
  });
}

}  // namespace trireme::kernels::cuda
