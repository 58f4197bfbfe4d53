// Rotary position embedding on a GPU: in place, one pass.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "kernels/cuda/common/rows.cuh"
#include "kernels/math/rope.hpp"
#include "kernels/rope.hpp"

namespace trireme::kernels::cuda {
namespace {

// A column of the area is a pair: pair j of head h is column h half + j. Groups do not
// straddle heads, as W divides `half` or is 1.
template <class T>
struct Rotate {
  using A = Wide<T>;
  Rows<T> x;
  Rows<A> cos_sin;
  const std::int32_t* positions;
  std::int64_t P;
  std::uint32_t half;
  A sign;  // -1 rotates backward
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    const auto column = static_cast<std::uint32_t>(c);
    const std::uint32_t head = column / half, j = column - head * half;
    T* const first = x[r] + (std::int64_t{2} * head * half + j);
    T* const second = first + half;
    const std::int64_t position = positions[r];
    // Throwing would make every step wait for the GPU: the row shows it instead.
    const bool known = position >= 0 && position < P;
    const A* const table = cos_sin[known ? position : 0] + j;
    const auto cosine = load_group<W>(table), sine = load_group<W>(table + half);
    auto a = load_group<W>(first), b = load_group<W>(second);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const A u = widen(a.x[i]), v = widen(b.x[i]);
      const A co = known ? cosine.x[i] : std::numeric_limits<A>::quiet_NaN();
      const A si = sign * sine.x[i];
      const auto turned = math::rotated(u, v, co, si);
      a.x[i] = narrow<T>(turned.first);
      b.x[i] = narrow<T>(turned.second);
    }
    store_group(first, a);
    store_group(second, b);
  }
};

// Angles in double, as the host makes them.
template <class A>
struct Angles {
  Rows<A> table;
  std::int64_t half;
  double theta;
  RopeScaling scaling;
  template <int W>
  __device__ void at(std::int64_t p, std::int64_t j) const {
    const double angle =
        static_cast<double>(p) * math::rope_frequency(j, half, theta, scaling);
    const double a = scaling.attention_factor;
    table[p][j] = static_cast<A>(a * std::cos(angle));
    table[p][j + half] = static_cast<A>(a * std::sin(angle));
  }
};

}  // namespace

void rope(Stream& stream, const TensorView& x, std::int64_t heads,
          const TensorView& positions_T, const TensorView& cos_sin_PK,
          Direction direction) {
  const std::int64_t P = cos_sin_PK.dim(0), half = cos_sin_PK.dim(1) / 2;
  require(x.dim(1) <= std::numeric_limits<std::int32_t>::max(),
          "rope: rows of {} elements are longer than a GPU's kernel counts", x.dim(1));
  require(P > 0 || x.dim(0) == 0, "rope: the table has no positions");
  visit_floating(x.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    using A = Wide<T>;
    constexpr int W = pack_elements<T>;
    const Rotate<T> f{rows_of<H>(x),
                      rows_of<A>(cos_sin_PK),
                      elements_of<std::int32_t>(positions_T),
                      P,
                      static_cast<std::uint32_t>(half),
                      direction == Direction::forward ? A(1) : A(-1)};
    const bool aligned =
        half % W == 0 && starts_are_aligned(x) && starts_are_aligned(cos_sin_PK);
    launch_over_rows<W>(stream, {x.dim(0), heads * half}, aligned, f);
  });
}

void rope_table(Stream& stream, double theta, const TensorView& cos_sin_PK,
                const RopeScaling& scaling) {
  const std::int64_t half = cos_sin_PK.dim(1) / 2;
  visit_floating(cos_sin_PK.dtype(), [&]<class A>(A) {
    if constexpr (std::is_floating_point_v<A>) {
      const Angles<A> f{rows_of<A>(cos_sin_PK), half, theta, scaling};
      launch_over_rows<1>(stream, {cos_sin_PK.dim(0), half}, true, f);
    }
  });
}

}  // namespace trireme::kernels::cuda
