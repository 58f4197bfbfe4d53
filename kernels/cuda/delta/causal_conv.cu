// Causal convolution on a GPU: forward a thread for an element, backward for a channel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/causal_conv.hpp"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/math.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/math/causal_conv.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int channel_threads = 64;

template <class T>
struct Conv {
  using A = Wide<T>;
  Rows<T> x, y;
  const T* weight;
  const std::int32_t* starts;
  std::int64_t S, W;

  // Where the document of row t of the sequence that begins at row `first` starts.
  __device__ std::int64_t start(std::int64_t first, std::int64_t t) const {
    return starts == nullptr ? 0 : starts[first + t];
  }
  __device__ A sum_taps(std::int64_t first, std::int64_t t, std::int64_t c) const {
    A u = 0;
    for (std::int64_t w = math::first_tap(t, start(first, t), W); w < W; ++w)
      u += widen(weight[c * W + w]) * widen(x[first + t - (W - 1) + w][c]);
    return u;
  }
  template <int width>
  __device__ void at(std::int64_t row, std::int64_t c) const {
    const std::int64_t first = row / S * S;
    y[row][c] = narrow<T>(math::silu<DeviceMath<A>>(sum_taps(first, row - first, c)));
  }
};

template <class T>
struct ConvBackward {
  using A = Wide<T>;
  Conv<T> of;  // y is dy
  Rows<T> dx;
  A* dweight;
  std::int64_t batch, channels;
};

// From the last row of each sequence on: the gradients of u of the last W rows are at
// hand when dx of a row needs them.
template <class T>
__global__ void __launch_bounds__(channel_threads) go_back(ConvBackward<T> d) {
  using A = Wide<T>;
  const std::int64_t c = std::int64_t{blockIdx.x} * channel_threads + threadIdx.x;
  if (c >= d.channels) return;
  const Conv<T>& of = d.of;
  const std::int64_t S = of.S, W = of.W;
  A du[most_conv_taps] = {}, dweight[most_conv_taps] = {};
  for (std::int64_t first = 0; first < d.batch * S; first += S) {
    std::int64_t end = S;  // of the document of row t
    for (std::int64_t t = S; t-- > 0;) {
      const std::int64_t start = of.start(first, t);
      const A slope = math::silu_slope<DeviceMath<A>>(of.sum_taps(first, t, c));
      const A own = widen(of.y[first + t][c]) * slope;
      du[t % W] = own;
      for (std::int64_t w = math::first_tap(t, start, W); w < W; ++w)
        dweight[w] += own * widen(of.x[first + t - (W - 1) + w][c]);
      A sum = 0;
      for (std::int64_t j = 0; j < W && t + j < end; ++j)
        sum += widen(of.weight[c * W + (W - 1 - j)]) * du[(t + j) % W];
      d.dx[first + t][c] = narrow<T>(sum);
      if (t == start) end = t;
    }
  }
  for (std::int64_t w = 0; w < W; ++w) d.dweight[c * W + w] += dweight[w];
}

template <class H>
Conv<DeviceType<H>> operands(const ConvShape& shape, const TensorView& x_TC,
                             const TensorView& weight_CW, const TensorView& y_TC) {
  return {rows_of<H>(x_TC),
          rows_of<H>(y_TC),
          elements_of<H>(weight_CW),
          shape.starts_T.empty() ? nullptr : shape.starts_T.data<std::int32_t>(),
          shape.sequence,
          weight_CW.dim(1)};
}

}  // namespace

void causal_conv(Stream& stream, const ConvShape& shape, const TensorView& x_TC,
                 const TensorView& weight_CW, const TensorView& y_TC) {
  visit_floating(x_TC.dtype(), [&]<class H>(H) {
    launch_over_rows<1>(stream, {x_TC.dim(0), x_TC.dim(1)}, false,
                        operands<H>(shape, x_TC, weight_CW, y_TC));
  });
}

void causal_conv_backward(Stream& stream, const ConvShape& shape, const TensorView& dy_TC,
                          const TensorView& x_TC, const TensorView& weight_CW,
                          const TensorView& dx_TC, const TensorView& dweight_CW) {
  visit_floating(x_TC.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const std::int64_t C = x_TC.dim(1);
    if (C == 0 || x_TC.dim(0) == 0) return;
    const ConvBackward<T> d{operands<H>(shape, x_TC, weight_CW, dy_TC), rows_of<H>(dx_TC),
                            elements_of<Accumulator<H>>(dweight_CW), shape.batch, C};
    launch(stream, Grid{{extent(divide_up(C, channel_threads))}, {channel_threads}},
           go_back<T>, d);
  });
}

}  // namespace trireme::kernels::cuda
