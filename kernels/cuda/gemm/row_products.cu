// Products of which each row has the same bits whatever the other rows are, on a GPU.
// SPDX-License-Identifier: Apache-2.0
// A block does one tile. How large tiles are depends on the number of rows, and the sum
// of an element does not (gemm/tile.cuh): K is never split.
#include <cuda_machine/shared.cuh>
#include <type_traits>

#include "kernels/cuda/gemm/gemm.hpp"
#include "kernels/cuda/gemm/tile.cuh"

namespace trireme::kernels::cuda {
namespace {

// For the next tokens of up to 16 texts, and of up to 64: narrow, so that every
// multiprocessor reads part of the weight, and deep, so that enough bytes are on the way.
using Few = tile::Shape<16, 32, 256, 5, 1, 2>;
using Some = tile::Shape<64, 32, 128, 6, 2, 2>;

// C = A B (+ bias) (+ C), B by rows of N, or a row for each k.
template <class T>
struct Product {
  Rows<const T> a, b;
  const T* bias;  // nullptr: none
  void* c;
  std::int64_t c_stride, M, N, K;
  bool wide, accumulates;  // C has the type of the sums; C is added to

  __device__ void put(std::int64_t row, std::int64_t column, Wide<T> sum) const {
    if (bias != nullptr) sum += widen(bias[column]);
    const std::int64_t at = row * c_stride + column;
    if (wide) {
      auto& to = static_cast<Wide<T>*>(c)[at];
      to = accumulates ? sum + to : sum;
    } else {
      T& to = static_cast<T*>(c)[at];
      to = narrow<T>(accumulates ? sum + widen(to) : sum);
    }
  }
};

template <class S, bool b_by_k, bool packed, class T>
__global__ void __launch_bounds__(S::threads) row_product_kernel(Product<T> of) {
  // Tiles of the same columns run side by side, and read them from the cache.
  const std::int64_t down = (of.M + S::rows - 1) / S::rows;
  const std::int64_t m = blockIdx.x % down * S::rows, n = blockIdx.x / down * S::columns;
  tile::Sums<S, T> sums;
  tile::multiply<S, false, b_by_k, packed, T>(
      {of.a[m], of.a.stride, of.M - m, of.K},
      {b_by_k ? of.b.data + n : of.b[n], of.b.stride, of.N - n, of.K},
      dynamic_shared<T>(), sums);
  tile::for_pairs<S, T>(sums, of.M - m, of.N - n,
                        [&](int row, int column, Wide<T> sum, Wide<T> next) {
                          of.put(m + row, n + column, sum);
                          if (n + column + 1 < of.N)
                            of.put(m + row, n + column + 1, next);
                        });
}

template <class S, bool b_by_k, bool packed, class T>
void start(Stream& stream, const Product<T>& of) {
  Grid grid;
  grid.blocks.x = extent(divide_up(of.M, S::rows) * divide_up(of.N, S::columns));
  grid.threads.x = S::threads;
  grid.shared_bytes = sizeof(T) * tile::shared_elements<S, T, false, b_by_k>;
  launch(stream, grid, row_product_kernel<S, b_by_k, packed, T>, of);
}

// Whether rows begin at multiples of 16 bytes, and what is contiguous ends at one.
template <class T>
bool starts_at_packs(const Rows<const T>& x, std::int64_t contiguous) {
  constexpr std::int64_t pack = pack_elements<T>;
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % pack == 0 &&
         contiguous % pack == 0;
}

}  // namespace

void gemm_by_rows(Stream& stream, const TensorView& c, const TensorView& a,
                  const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                  const TensorView& bias) {
  visit_floating(a.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Product<T> of{.a = {elements_of<H>(a), a.stride(0)},
                        .b = {elements_of<H>(b), b.stride(0)},
                        .bias = elements_of<H>(bias),
                        .c = c.raw(),
                        .c_stride = c.stride(0),
                        .M = c.dim(0),
                        .N = c.dim(1),
                        .K = a.dim(1),
                        .wide = c.dtype() == dtype_of<Accumulator<H>>,
                        .accumulates = accumulate == Accumulate::yes};
    const bool by_k = transpose_b == Transpose::no;
    if (!starts_at_packs(of.a, of.K) || !starts_at_packs(of.b, by_k ? of.N : of.K))
      return by_k ? start<Some, true, false>(stream, of)
                  : start<Some, false, false>(stream, of);
    if (by_k) return start<Some, true, true>(stream, of);
    if (of.M <= Few::rows) return start<Few, false, true>(stream, of);
    if constexpr (!std::is_same_v<T, double>) {  // whose sums would fill the registers
      if (of.M > Some::rows) return start<tile::Large, false, true>(stream, of);
    }
    start<Some, false, true>(stream, of);
  });
}

}  // namespace trireme::kernels::cuda
