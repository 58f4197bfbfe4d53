// Sinks of attention on a GPU: a warp for a head of a row.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/attention_sinks.hpp"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/math/sinks.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int warps = 8;

template <class T>
struct Sinks {
  using A = Wide<T>;
  const T* sinks;
  Rows<T> d_o, o;
  Rows<A> lse, terms;
  std::int64_t rows, heads, width;
};

// The pair (row, head) of this warp, and so on by the warps of the grid.
template <class T, class F>
__device__ void for_heads(const Sinks<T>& of, const F& f) {
  const std::int64_t warp =
      std::int64_t{blockIdx.x} * warps + static_cast<int>(threadIdx.x) / warp_size;
  for (std::int64_t i = warp; i < of.rows * of.heads;
       i += std::int64_t{gridDim.x} * warps)
    f(i / of.heads, i % of.heads, static_cast<int>(threadIdx.x) % warp_size);
}

template <class T>
__global__ void __launch_bounds__(warps* warp_size) add_to_rows(Sinks<T> of) {
  using A = Wide<T>;
  for_heads(of, [&](std::int64_t t, std::int64_t h, int lane) {
    const A before = of.lse[t][h];
    const A with = math::log_of_sum(before, widen(of.sinks[h]));
    const A share = std::exp(before - with);
    T* const row = of.o[t] + h * of.width;
    for (std::int64_t k = lane; k < of.width; k += warp_size)
      row[k] = narrow<T>(share * widen(row[k]));
    __syncwarp();
    if (lane == 0) of.lse[t][h] = with;
  });
}

template <class T>
__global__ void __launch_bounds__(warps* warp_size) gradient_terms(Sinks<T> of) {
  using A = Wide<T>;
  for_heads(of, [&](std::int64_t t, std::int64_t h, int lane) {
    const T* const left = of.d_o[t] + h * of.width;
    const T* const right = of.o[t] + h * of.width;
    A sum = 0;
    for (std::int64_t k = lane; k < of.width; k += warp_size)
      sum += widen(left[k]) * widen(right[k]);
    sum = warp_sum(sum);
    if (lane == 0) of.terms[t][h] = -std::exp(widen(of.sinks[h]) - of.lse[t][h]) * sum;
  });
}

template <class H>
Sinks<DeviceType<H>> operands(const TensorView& sinks_H, const TensorView& do_THK,
                              const TensorView& o_THK, const TensorView& lse_TH,
                              const TensorView& terms_TH) {
  using A = Accumulator<H>;
  const std::int64_t heads = sinks_H.elements();
  return {elements_of<H>(sinks_H),
          rows_of<H>(do_THK),
          rows_of<H>(o_THK),
          rows_of<A>(lse_TH),
          rows_of<A>(terms_TH),
          o_THK.dim(0),
          heads,
          o_THK.dim(1) / heads};
}

template <class T>
void start(Stream& stream, void (*kernel)(Sinks<T>), const Sinks<T>& of) {
  if (of.rows == 0) return;
  const Grid grid{{striding_blocks(stream, of.rows * of.heads, warps)},
                  {warps * warp_size}};
  launch(stream, grid, kernel, of);
}

}  // namespace

void add_sinks(Stream& stream, const TensorView& sinks_H, const TensorView& o_THK,
               const TensorView& lse_TH) {
  visit_floating(o_THK.dtype(), [&]<class H>(H) {
    start<DeviceType<H>>(stream, add_to_rows<DeviceType<H>>,
                         operands<H>(sinks_H, {}, o_THK, lse_TH, {}));
  });
}

void sink_gradients(Stream& stream, const TensorView& sinks_H, const TensorView& do_THK,
                    const TensorView& o_THK, const TensorView& lse_TH,
                    const TensorView& terms_TH) {
  visit_floating(o_THK.dtype(), [&]<class H>(H) {
    start<DeviceType<H>>(stream, gradient_terms<DeviceType<H>>,
                         operands<H>(sinks_H, do_THK, o_THK, lse_TH, terms_TH));
  });
}

}  // namespace trireme::kernels::cuda
