// Adds, copies, casts, fills and sums of parts on a GPU: one pass each, every byte once.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/elementwise/demand.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::kernels::cuda {
namespace {

// Elements that a thread handles at a time: one access of 16 bytes for the smallest type.
template <class... T>
inline constexpr int group_of = std::max({pack_elements<T>...});

template <class T>
struct Add {
  Rows<T> a, b, y;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    auto sum = load_group<W>(a[r] + c);
    const auto other = load_group<W>(b[r] + c);
#pragma unroll
    for (int i = 0; i < W; ++i) sum.x[i] = narrow<T>(widen(sum.x[i]) + widen(other.x[i]));
    store_group(y[r] + c, sum);
  }
};

template <class T>
struct AddBias {
  Rows<T> a, b, y;
  const T* bias;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    auto sum = load_group<W>(a[r] + c);
    const auto other = load_group<W>(b[r] + c), third = load_group<W>(bias + c);
#pragma unroll
    for (int i = 0; i < W; ++i)
      sum.x[i] = narrow<T>(widen(sum.x[i]) + widen(other.x[i]) + widen(third.x[i]));
    store_group(y[r] + c, sum);
  }
};

template <class X, class Y>
struct Copy {
  Rows<X> x;
  Rows<Y> y;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    const auto from = load_group<W>(x[r] + c);
    if constexpr (std::is_same_v<X, Y>) {
      store_group(y[r] + c, from);
    } else {
      Group<Y, W> to;
#pragma unroll
      for (int i = 0; i < W; ++i)
        to.x[i] = narrow<Y>(static_cast<Wide<Y>>(widen(from.x[i])));
      store_group(y[r] + c, to);
    }
  }
};

template <class T>
struct Fill {
  T* y;
  Wide<T> value;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    Group<T, W> group;
#pragma unroll
    for (int i = 0; i < W; ++i) group.x[i] = narrow<T>(value);
    store_group(y + c, group);
  }
};

template <class T>
struct Scale {
  T* x;
  Wide<T> factor;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    auto group = load_group<W>(x + c);
#pragma unroll
    for (int i = 0; i < W; ++i) group.x[i] = narrow<T>(widen(group.x[i]) * factor);
    store_group(x + c, group);
  }
};

template <class T>
struct SoftCap {
  Rows<T> x;
  Wide<T> cap, inverse;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    auto group = load_group<W>(x[r] + c);
#pragma unroll
    for (int i = 0; i < W; ++i)
      group.x[i] = narrow<T>(cap * std::tanh(widen(group.x[i]) * inverse));
    store_group(x[r] + c, group);
  }
};

template <class Y, class D>
struct SoftCapBackward {
  Rows<Y> y;
  Rows<D> d;
  Wide<D> inverse;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    const auto from = load_group<W>(y[r] + c);
    auto to = load_group<W>(d[r] + c);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const Wide<D> t = static_cast<Wide<D>>(widen(from.x[i])) * inverse;
      to.x[i] = narrow<D>(widen(to.x[i]) * (Wide<D>(1) - t * t));
    }
    store_group(d[r] + c, to);
  }
};

template <class X, class Y>
struct Accumulate {
  const X* x;
  Y* y;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    const auto more = load_group<W>(x + c);
    auto sum = load_group<W>(y + c);
#pragma unroll
    for (int i = 0; i < W; ++i)
      sum.x[i] = narrow<Y>(widen(sum.x[i]) + static_cast<Wide<Y>>(widen(more.x[i])));
    store_group(y + c, sum);
  }
};

struct Sum {
  template <class A>
  __device__ static A of(A a, A b) {
    return a + b;
  }
};
// A NaN in any part wins, so that it cannot hide.
struct Max {
  template <class A>
  __device__ static A of(A a, A b) {
    return b > a || b != b ? b : a;
  }
};

template <class T, class Combine>
struct CombineParts {
  Rows<T> parts;
  std::int64_t P;
  T* out;
  template <int W>
  __device__ void at(std::int64_t, std::int64_t c) const {
    Wide<T> value[W];
    const auto first = load_group<W>(parts[0] + c);
#pragma unroll
    for (int i = 0; i < W; ++i) value[i] = widen(first.x[i]);
#pragma unroll 4
    for (std::int64_t p = 1; p < P; ++p) {
      const auto part = load_group<W>(parts[p] + c);
#pragma unroll
      for (int i = 0; i < W; ++i) value[i] = Combine::of(value[i], widen(part.x[i]));
    }
    Group<T, W> group;
#pragma unroll
    for (int i = 0; i < W; ++i) group.x[i] = narrow<T>(value[i]);
    store_group(out + c, group);
  }
};

template <class Combine>
void combine_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N) {
  visit_floating(out_N.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const CombineParts<T, Combine> f{rows_of<H>(parts_PN), parts_PN.dim(0),
                                     elements_of<H>(out_N)};
    const bool aligned = starts_are_aligned(parts_PN) && starts_are_aligned(out_N);
    launch_over_rows<pack_elements<T>>(stream, {1, out_N.dim(0)}, aligned, f);
  });
}

}  // namespace

void add_bias(Stream& stream, const TensorView& a_TD, const TensorView& b_TD,
              const TensorView& bias_D, const TensorView& y_TD) {
  visit_floating(y_TD.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Rows<T> a = rows_of<H>(a_TD), b = rows_of<H>(b_TD), y = rows_of<H>(y_TD);
    if (bias_D.empty()) {
      const Area area = area_of({&a_TD, &b_TD, &y_TD});
      const bool aligned = starts_are_aligned({&a_TD, &b_TD, &y_TD}, area);
      launch_over_rows<pack_elements<T>>(stream, area, aligned, Add<T>{a, b, y});
    } else {
      const Area area{y_TD.dim(0), y_TD.dim(1)};
      const bool aligned =
          starts_are_aligned({&a_TD, &b_TD, &y_TD}, area) && starts_are_aligned(bias_D);
      launch_over_rows<pack_elements<T>>(stream, area, aligned,
                                         AddBias<T>{a, b, y, elements_of<H>(bias_D)});
    }
  });
}

void add_to_rows(Stream& stream, const TensorView& bias_D, const TensorView& x_TD) {
  visit_floating(x_TD.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Rows<T> x = rows_of<H>(x_TD), bias = rows_of<H>(bias_D);  // of stride 0
    const Area area{x_TD.dim(0), x_TD.dim(1)};
    const bool aligned = starts_are_aligned({&x_TD}, area) && starts_are_aligned(bias_D);
    launch_over_rows<pack_elements<T>>(stream, area, aligned, Add<T>{x, bias, x});
  });
}

void add(Stream& stream, const TensorView& a, const TensorView& b, const TensorView& y) {
  add_bias(stream, a, b, {}, y);
}

void copy(Stream& stream, const TensorView& x, const TensorView& y) {
  visit_floating(x.dtype(), [&]<class HX>(HX) {
    visit_floating(y.dtype(), [&]<class HY>(HY) {
      using X = DeviceType<HX>;
      using Y = DeviceType<HY>;
      const Area area = area_of({&x, &y});
      launch_over_rows<group_of<X, Y>>(stream, area, starts_are_aligned({&x, &y}, area),
                                       Copy<X, Y>{rows_of<HX>(x), rows_of<HY>(y)});
    });
  });
}

void fill(Stream& stream, const TensorView& y, double value) {
  visit_floating(y.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Fill<T> f{elements_of<H>(y), static_cast<Wide<T>>(value)};
    launch_over_rows<pack_elements<T>>(stream, {1, y.elements()},
                                       starts_are_aligned({&y}, {1, 1}), f);
  });
}

void scale(Stream& stream, const TensorView& x, double factor) {
  visit_floating(x.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Scale<T> f{elements_of<H>(x), static_cast<Wide<T>>(factor)};
    launch_over_rows<pack_elements<T>>(stream, {1, x.elements()},
                                       starts_are_aligned({&x}, {1, 1}), f);
  });
}

void soft_cap(Stream& stream, const TensorView& x, double cap) {
  visit_floating(x.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Area area = area_of({&x});
    launch_over_rows<pack_elements<T>>(
        stream, area, starts_are_aligned({&x}, area),
        SoftCap<T>{rows_of<H>(x), static_cast<Wide<T>>(cap),
                   static_cast<Wide<T>>(1 / cap)});
  });
}

void soft_cap_backward(Stream& stream, const TensorView& y, double cap,
                       const TensorView& d) {
  visit_floating(y.dtype(), [&]<class HY>(HY) {
    visit_floating(d.dtype(), [&]<class HD>(HD) {
      using Y = DeviceType<HY>;
      using D = DeviceType<HD>;
      const Area area = area_of({&y, &d});
      launch_over_rows<group_of<Y, D>>(
          stream, area, starts_are_aligned({&y, &d}, area),
          SoftCapBackward<Y, D>{rows_of<HY>(y), rows_of<HD>(d),
                                static_cast<Wide<D>>(1 / cap)});
    });
  });
}

void accumulate(Stream& stream, const TensorView& x, const TensorView& y) {
  visit_floating(x.dtype(), [&]<class HX>(HX) {
    visit_floating(y.dtype(), [&]<class HY>(HY) {
      using X = DeviceType<HX>;
      using Y = DeviceType<HY>;
      const Area area{1, x.elements()};
      launch_over_rows<group_of<X, Y>>(
          stream, area, starts_are_aligned({&x, &y}, area),
          Accumulate<X, Y>{elements_of<HX>(x), elements_of<HY>(y)});
    });
  });
}

void sum_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N) {
  combine_parts<Sum>(stream, parts_PN, out_N);
}

void max_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N) {
  combine_parts<Max>(stream, parts_PN, out_N);
}

}  // namespace trireme::kernels::cuda
