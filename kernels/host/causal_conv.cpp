// Causal convolution on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/causal_conv.hpp"

#include <algorithm>
#include <array>

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/math/causal_conv.hpp"

namespace trireme::kernels::host {
namespace {

constexpr std::int64_t channels_per_task = 64;

// Where the document of row t of a sequence that begins at row `begin` starts.
struct Starts {
  const std::int32_t* starts;
  std::int64_t operator()(std::int64_t begin, std::int64_t t) const {
    return starts == nullptr ? 0 : starts[begin + t];
  }
};

Starts starts_of(const ConvShape& shape) {
  return {shape.starts_T.empty() ? nullptr : shape.starts_T.data<std::int32_t>()};
}

// u of channels [first, first + count) of the row t of a sequence whose rows are x.
template <class T, class A>
void sum_taps(const Rows<const T>& x, const T* weight, std::int64_t W, std::int64_t t,
              std::int64_t start, Range channels, A* u) {
  const std::int64_t count = channels.count();
  std::fill_n(u, count, A(0));
  for (std::int64_t w = math::first_tap(t, start, W); w < W; ++w) {
    const T* row = x[t - (W - 1) + w] + channels.begin;
    const T* tap = weight + channels.begin * W + w;
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) u[c] += load(tap[c * W]) * load(row[c]);
  }
}

template <class F>
void for_channels(const char* label, std::int64_t channels, std::int64_t rows,
                  const F& f) {
  const std::int64_t tasks = divide_up(channels, channels_per_task);
  const std::int64_t grain =
      elements_per_task / std::max<std::int64_t>(rows * channels_per_task, 1);
  for_ranges(label, tasks, std::max<std::int64_t>(grain, 1), threads(),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t task = begin; task < end; ++task)
                 f(Range{task * channels_per_task,
                         std::min((task + 1) * channels_per_task, channels)});
             });
}

// Backward of some channels of one sequence, from its last row on: the gradients of u of
// the last W rows are at hand when dx of a row needs them.
template <class T, class A>
struct ConvBackward {
  using Row = std::array<A, channels_per_task>;

  Rows<const T> dy, x;
  Rows<T> dx;
  const T* weight;
  std::int64_t W;
  Range channels;
  std::array<Row, most_conv_taps> du{}, dweight{};

  void add_row(std::int64_t t, std::int64_t start) {
    const std::int64_t count = channels.count();
    Row u;
    sum_taps(x, weight, W, t, start, channels, u.data());
    Row& d = du[static_cast<std::size_t>(t % W)];
    const T* dy_t = dy[t] + channels.begin;
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) {
      const auto at = static_cast<std::size_t>(c);
      d[at] = load(dy_t[c]) * math::silu_slope<HostMath>(u[at]);
    }
    for (std::int64_t w = math::first_tap(t, start, W); w < W; ++w) {
      const T* row = x[t - (W - 1) + w] + channels.begin;
      Row& sum = dweight[static_cast<std::size_t>(w)];
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c)
        sum[static_cast<std::size_t>(c)] += d[static_cast<std::size_t>(c)] * load(row[c]);
    }
  }

  // Rows [t, t + readers) read row t.
  void write_row(std::int64_t t, std::int64_t readers) {
    const std::int64_t count = channels.count();
    Row sum{};
    for (std::int64_t j = 0; j < readers; ++j) {
      const Row& d = du[static_cast<std::size_t>((t + j) % W)];
      const T* tap = weight + channels.begin * W + (W - 1 - j);
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c)
        sum[static_cast<std::size_t>(c)] +=
            load(tap[c * W]) * d[static_cast<std::size_t>(c)];
    }
    T* dx_t = dx[t] + channels.begin;
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c)
      dx_t[c] = store<T>(sum[static_cast<std::size_t>(c)]);
  }
};

}  // namespace

void causal_conv(Stream& /*stream*/, const ConvShape& shape, const TensorView& x_TC,
                 const TensorView& weight_CW, const TensorView& y_TC) {
  const std::int64_t C = x_TC.dim(1), W = weight_CW.dim(1), S = shape.sequence;
  const Starts starts = starts_of(shape);
  visit_floating(x_TC.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto all_x = rows_of<const T>(x_TC);
    const auto all_y = rows_of<T>(y_TC);
    const T* weight = weight_CW.data<T>();
    for_rows(
        "causal_conv", x_TC.dim(0), C * W, [&](std::int64_t begin, std::int64_t end) {
          std::array<A, channels_per_task> u;
          for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t first = row / S * S, t = row - first;
            const Rows<const T> x{all_x[first], all_x.stride};
            for (std::int64_t c = 0; c < C; c += channels_per_task) {
              const Range channels{c, std::min(c + channels_per_task, C)};
              sum_taps(x, weight, W, t, starts(first, t), channels, u.data());
              T* y = all_y[row] + c;
#pragma omp simd
              for (std::int64_t i = 0; i < channels.count(); ++i)
                y[i] = store<T>(math::silu<HostMath>(u[static_cast<std::size_t>(i)]));
            }
          }
        });
  });
}

void causal_conv_backward(Stream& /*stream*/, const ConvShape& shape,
                          const TensorView& dy_TC, const TensorView& x_TC,
                          const TensorView& weight_CW, const TensorView& dx_TC,
                          const TensorView& dweight_CW) {
  const std::int64_t C = x_TC.dim(1), W = weight_CW.dim(1), S = shape.sequence;
  const Starts starts = starts_of(shape);
  visit_floating(x_TC.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto dy = rows_of<const T>(dy_TC), x = rows_of<const T>(x_TC);
    const auto dx = rows_of<T>(dx_TC);
    A* const dweight = dweight_CW.data<A>();
    for_channels("causal_conv_backward", C, x_TC.dim(0), [&](Range channels) {
      ConvBackward<T, A> of{{}, {}, {}, weight_CW.data<T>(), W, channels};
      for (std::int64_t b = 0; b < shape.batch; ++b) {
        const std::int64_t first = b * S;
        of.dy = {dy[first], dy.stride};
        of.x = {x[first], x.stride};
        of.dx = {dx[first], dx.stride};
        std::int64_t end = S;  // of the document of row t
        for (std::int64_t t = S; t-- > 0;) {
          const std::int64_t start = starts(first, t);
          of.add_row(t, start);
          of.write_row(t, std::min(W, end - t));
          if (t == start) end = t;
        }
      }
      for (std::int64_t c = 0; c < channels.count(); ++c)
        for (std::int64_t w = 0; w < W; ++w)
          dweight[(channels.begin + c) * W + w] +=
              of.dweight[static_cast<std::size_t>(w)][static_cast<std::size_t>(c)];
    });
  });
}

}  // namespace trireme::kernels::host
