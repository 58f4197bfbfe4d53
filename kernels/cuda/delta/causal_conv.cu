// Causal convolution on a GPU: forward a thread for an element, backward for a channel.
// SPDX-License-Identifier: Apache-2.0
// Backward cuts the rows into pieces, so that there are threads enough: a thread goes
// over a piece's rows of its channel and sums their part of dweight. A second kernel adds
// these parts.
#include "kernels/causal_conv.hpp"
#include "kernels/cuda/common/column_sums.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/math.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/delta/demand.hpp"
#include "kernels/math/causal_conv.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int channel_threads = 64;
constexpr int rows_at_once = 4;  // whose loads are under way together
constexpr std::int64_t least_piece_rows = 128;

// A function of the number of rows alone, as the order of sums is.
std::int64_t piece_rows(std::int64_t rows) {
  return std::max(least_piece_rows, divide_up(rows, most_partial_rows));
}

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
  Conv<T> of;  // y is dy
  Rows<T> dx;
  Wide<T>* parts_PCW;  // of dweight, P pieces
  std::int64_t rows, channels, piece;
};

// A channel from some row on backwards, over all sequences. Arrays are windows that move
// along with the rows, so that they stay in registers.
template <class T, int W>
struct Channel {
  using A = Wide<T>;
  const ConvBackward<T>& d;
  std::int64_t c;
  std::int64_t first;  // of the sequence of the row before which all are done
  int readers = 1;     // rows of the next row's document that read it, as far as known
  A weight[W], x[W];   // x: what the taps of the next row meet
  A du[W] = {}, dweight[W] = {};  // du: the gradients of u of the last W rows

  __device__ Channel(const ConvBackward<T>& backward, std::int64_t channel,
                     std::int64_t top)
      : d(backward), c(channel), first((top - 1) / d.of.S * d.of.S) {
#pragma unroll
    for (int w = 0; w < W; ++w) {
      weight[w] = widen(d.of.weight[c * W + w]);
      x[w] = x_of(top - W + w);
    }
  }
  __device__ A x_of(std::int64_t row) const {
    return row >= 0 ? widen(d.of.x[row][c]) : A(0);
  }

  // The N rows up to t. own: they are the piece's. Of those behind it dx of the piece's
  // last rows needs du.
  template <int N, bool own>
  __device__ void go_back(std::int64_t t) {
    A dy[N], before[N];
    int reach[N];  // rows of the document that the row's taps meet besides its own
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const std::int64_t row = t - n;
      if (row < first) first -= d.of.S;
      dy[n] = widen(d.of.y[row][c]);
      before[n] = x_of(row - W);
      const std::int64_t in_sequence = row - first;
      reach[n] = static_cast<int>(
          min(in_sequence - d.of.start(first, in_sequence), std::int64_t{W - 1}));
    }
#pragma unroll
    for (int n = 0; n < N; ++n) add_row<own>(t - n, reach[n], dy[n], before[n]);
  }

  template <bool own>
  __device__ void add_row(std::int64_t row, int reach, A dy, A before) {
    A u = 0;
#pragma unroll
    for (int w = 0; w < W; ++w)
      if (w >= W - 1 - reach) u += weight[w] * x[w];
#pragma unroll
    for (int j = W - 1; j > 0; --j) du[j] = du[j - 1];
    du[0] = dy * math::silu_slope<DeviceMath<A>>(u);
    if constexpr (own) {
#pragma unroll
      for (int w = 0; w < W; ++w)
        if (w >= W - 1 - reach) dweight[w] += du[0] * x[w];
      A sum = 0;
#pragma unroll
      for (int j = 0; j < W; ++j)
        if (j < readers) sum += weight[W - 1 - j] * du[j];
      d.dx[row][c] = narrow<T>(sum);
    }
    readers = reach == 0 ? 1 : min(readers + 1, W);
#pragma unroll
    for (int w = W - 1; w > 0; --w) x[w] = x[w - 1];
    x[0] = before;
  }
};

template <class T, int W>
__global__ void __launch_bounds__(channel_threads) go_back(ConvBackward<T> d) {
  const std::int64_t c = std::int64_t{blockIdx.x} * channel_threads + threadIdx.x;
  if (c >= d.channels) return;
  const std::int64_t begin = std::int64_t{blockIdx.y} * d.piece,
                     end = min(d.rows, begin + d.piece), top = min(d.rows, end + (W - 1));
  Channel<T, W> channel(d, c, top);
  std::int64_t t = top;
  for (; t > end; --t) channel.template go_back<1, false>(t - 1);
  for (; t - rows_at_once >= begin; t -= rows_at_once)
    channel.template go_back<rows_at_once, true>(t - 1);
  for (; t > begin; --t) channel.template go_back<1, true>(t - 1);
  Wide<T>* const part = d.parts_PCW + (std::int64_t{blockIdx.y} * d.channels + c) * W;
#pragma unroll
  for (int w = 0; w < W; ++w) part[w] = channel.dweight[w];
}

// f.operator()<W>() with the number of taps as a constant.
template <int W = 1, class F>
void with_taps(std::int64_t taps, const F& f) {
  if constexpr (W < most_conv_taps) {
    if (taps > W) return with_taps<W + 1>(taps, f);
  }
  f.template operator()<W>();
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

std::int64_t causal_conv_backward_workspace(const TensorView& x_TC,
                                            const TensorView& weight_CW) {
  const std::int64_t rows = x_TC.dim(0);
  if (x_TC.elements() == 0) return 0;
  return divide_up(rows, piece_rows(rows)) * weight_CW.elements() *
         static_cast<std::int64_t>(size_of(accumulator_of(x_TC.dtype())));
}

void causal_conv_backward(Stream& stream, const ConvShape& shape, const TensorView& dy_TC,
                          const TensorView& x_TC, const TensorView& weight_CW,
                          const TensorView& dx_TC, const TensorView& dweight_CW) {
  if (x_TC.elements() == 0) return;
  visit_floating(x_TC.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    using A = Wide<T>;
    const std::int64_t rows = x_TC.dim(0), C = x_TC.dim(1), W = weight_CW.dim(1),
                       piece = piece_rows(rows), pieces = divide_up(rows, piece);
    A* const parts_PCW =
        workspace(stream, dweight_CW.dtype(), {pieces, C * W}).template data<A>();
    const ConvBackward<T> d{operands<H>(shape, x_TC, weight_CW, dy_TC),
                            rows_of<H>(dx_TC),
                            parts_PCW,
                            rows,
                            C,
                            piece};
    const Grid grid{{extent(divide_up(C, channel_threads)), extent(pieces)},
                    {channel_threads}};
    with_taps(W, [&]<int taps>() { launch(stream, grid, go_back<T, taps>, d); });
    launch_add_partial_rows(stream, parts_PCW, pieces, C * W, elements_of<A>(dweight_CW));
  });
}

}  // namespace trireme::kernels::cuda
