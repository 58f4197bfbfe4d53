// SwiGLU and GELU on a GPU: one pass each. sigma(x) = 1 / (1 + e^-x) throughout.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/activation.hpp"
#include "kernels/cuda/common/rows.cuh"

namespace trireme::kernels::cuda {
namespace {

// sigma(x) and sigma(-x), each with small relative error in both tails.
template <class A>
struct Logistic {
  A value, complement;
};

// For elements of type T. The exponential of the special function unit errs by 2^-21 or
// so for the arguments that matter, far below the rounding of 16-bit results, for which
// the full one would cost more time than memory does.
template <class T>
__device__ inline Logistic<Wide<T>> logistic(Wide<T> x) {
  using A = Wide<T>;
  const A negative = x < A(0) ? x : -x;
  A e, large;
  if constexpr (sizeof(T) == 2) {
    e = __expf(negative);
    large = __fdividef(1.0f, 1.0f + e);
  } else {
    e = std::exp(negative);
    large = A(1) / (A(1) + e);
  }
  const A small = e * large;
  return x < A(0) ? Logistic<A>{small, large} : Logistic<A>{large, small};
}

// GELU by tanh is x sigma(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), since
// (1 + tanh u) / 2 = sigma(2 u): no cancellation where tanh is near -1.
template <class A>
struct Gelu {
  A sigma, complement;  // of 2 u
  A slope;              // d (2 u) / dx
};

// Beyond |x| = 30 sigma is 0 or 1 in every type, and x is clamped there: x^3 would
// overflow for large x and infinity times the complement, 0, would be NaN.
template <class T>
__device__ inline Gelu<Wide<T>> gelu_parts(Wide<T> x) {
  using A = Wide<T>;
  constexpr A two_root = static_cast<A>(1.5957691216057308);  // 2 sqrt(2 / pi)
  constexpr A cubic = static_cast<A>(0.044715);
  A c = x > A(30) ? A(30) : x;
  c = c < A(-30) ? A(-30) : c;
  const A square = c * c;
  const auto sigma = logistic<T>(two_root * c * (A(1) + cubic * square));
  return {sigma.value, sigma.complement, two_root * (A(1) + A(3) * cubic * square)};
}

template <class T>
struct Swiglu {
  Rows<T> gate_up, y;
  std::int64_t F;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    const T* const row = gate_up[r] + c;
    const auto gate = load_group<W>(row), up = load_group<W>(row + F);
    Group<T, W> out;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const auto g = widen(gate.x[i]);
      out.x[i] = narrow<T>(g * logistic<T>(g).value * widen(up.x[i]));
    }
    store_group(y[r] + c, out);
  }
};

// silu'(g) = sigma (1 + g (1 - sigma)).
template <class T>
struct SwigluBackward {
  Rows<T> dy, gate_up, dgate_up;
  std::int64_t F;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    using A = Wide<T>;
    const T* const row = gate_up[r] + c;
    const auto gate = load_group<W>(row), up = load_group<W>(row + F);
    const auto dy_group = load_group<W>(dy[r] + c);
    Group<T, W> dgate, dup;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const A g = widen(gate.x[i]), dy_i = widen(dy_group.x[i]);
      const auto sigma = logistic<T>(g);
      const A slope = sigma.value * (A(1) + g * sigma.complement);
      dgate.x[i] = narrow<T>(dy_i * widen(up.x[i]) * slope);
      dup.x[i] = narrow<T>(dy_i * g * sigma.value);
    }
    store_group(dgate_up[r] + c, dgate);
    store_group(dgate_up[r] + F + c, dup);
  }
};

template <class T>
struct GeluForward {
  Rows<T> x, y;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    auto group = load_group<W>(x[r] + c);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const auto v = widen(group.x[i]);
      group.x[i] = narrow<T>(v * gelu_parts<T>(v).sigma);
    }
    store_group(y[r] + c, group);
  }
};

template <class T>
struct GeluBackward {
  Rows<T> dy, x, dx;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    const auto dy_group = load_group<W>(dy[r] + c);
    auto group = load_group<W>(x[r] + c);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const auto v = widen(group.x[i]);
      const auto part = gelu_parts<T>(v);
      const auto slope = part.sigma + part.sigma * (v * part.complement) * part.slope;
      group.x[i] = narrow<T>(widen(dy_group.x[i]) * slope);
    }
    store_group(dx[r] + c, group);
  }
};

// Whether the second half of the rows, which starts at element F, is aligned too.
template <class T>
bool halves_are_aligned(std::int64_t F) {
  return F % pack_elements<T> == 0;
}

}  // namespace

void swiglu(Stream& stream, const TensorView& gate_up_T2F, const TensorView& y_TF) {
  visit_floating(y_TF.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Area area{y_TF.dim(0), y_TF.dim(1)};
    const bool aligned = halves_are_aligned<T>(area.width) &&
                         starts_are_aligned({&gate_up_T2F, &y_TF}, area);
    const Swiglu<T> f{rows_of<H>(gate_up_T2F), rows_of<H>(y_TF), area.width};
    launch_over_rows<pack_elements<T>>(stream, area, aligned, f);
  });
}

void swiglu_backward(Stream& stream, const TensorView& dy_TF,
                     const TensorView& gate_up_T2F, const TensorView& dgate_up_T2F) {
  visit_floating(dy_TF.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Area area{dy_TF.dim(0), dy_TF.dim(1)};
    const bool aligned = halves_are_aligned<T>(area.width) &&
                         starts_are_aligned({&dy_TF, &gate_up_T2F, &dgate_up_T2F}, area);
    const SwigluBackward<T> f{rows_of<H>(dy_TF), rows_of<H>(gate_up_T2F),
                              rows_of<H>(dgate_up_T2F), area.width};
    launch_over_rows<pack_elements<T>>(stream, area, aligned, f);
  });
}

void gelu(Stream& stream, const TensorView& x, const TensorView& y) {
  visit_floating(x.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Area area = area_of({&x, &y});
    launch_over_rows<pack_elements<T>>(stream, area, starts_are_aligned({&x, &y}, area),
                                       GeluForward<T>{rows_of<H>(x), rows_of<H>(y)});
  });
}

void gelu_backward(Stream& stream, const TensorView& dy, const TensorView& x,
                   const TensorView& dx) {
  visit_floating(x.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Area area = area_of({&dy, &x, &dx});
    const bool aligned = starts_are_aligned({&dy, &x, &dx}, area);
    const GeluBackward<T> f{rows_of<H>(dy), rows_of<H>(x), rows_of<H>(dx)};
    launch_over_rows<pack_elements<T>>(stream, area, aligned, f);
  });
}

}  // namespace trireme::kernels::cuda
