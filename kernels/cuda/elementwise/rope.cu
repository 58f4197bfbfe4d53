// Rotary position embedding on a GPU: in place, one pass.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/common/rows.cuh"
#include "kernels/math/rope.hpp"
#include "kernels/rope.hpp"

namespace trireme::kernels::cuda {
namespace {

// A column of the area is a pair: pair j of head h is column h half + j. Groups do not
// straddle heads, as W divides `half` or is 1.
template <class T, bool Neighbours>
struct Rotate {
  using A = Wide<T>;
  Rows<T> x;
  Rows<A> cos_sin;
  const std::int32_t* positions;
  std::int64_t P;
  std::uint32_t half, width, begin;  // of a head: pairs, numbers, the first that turns
  A sign;                            // -1 rotates backward
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    const auto column = static_cast<std::uint32_t>(c);
    const std::uint32_t head = column / half, j = column - head * half;
    // Of neighbours the W pairs are 2 W numbers on end.
    T* const first =
        x[r] + (std::int64_t{head} * width + begin + (Neighbours ? 2 * j : j));
    T* const second = first + (Neighbours ? W : half);
    const std::int64_t position = positions[r];
    // Throwing would make every step wait for the GPU: the row shows it instead.
    const bool known = position >= 0 && position < P;
    const A* const table = cos_sin[known ? position : 0] + j;
    const auto cosine = load_group<W>(table), sine = load_group<W>(table + half);
    Group<T, W> groups[2] = {load_group<W>(first), load_group<W>(second)};
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const int even = 2 * i, odd = 2 * i + 1;
      T& a = Neighbours ? groups[even / W].x[even % W] : groups[0].x[i];
      T& b = Neighbours ? groups[odd / W].x[odd % W] : groups[1].x[i];
      const A u = widen(a), v = widen(b);
      const A co = known ? cosine.x[i] : std::numeric_limits<A>::quiet_NaN();
      const A si = sign * sine.x[i];
      const auto turned = math::rotated(u, v, co, si);
      a = narrow<T>(turned.first);
      b = narrow<T>(turned.second);
    }
    store_group(first, groups[0]);
    store_group(second, groups[1]);
  }
};

// Frequencies travel with the launch.
constexpr std::int64_t most_pairs = 128;

// Angles in double, as the host makes them, of the pairs from `first` on.
template <class A>
struct Angles {
  Rows<A> table;
  std::int64_t half, first, position;
  double factor;
  double frequency[most_pairs];
  template <int W>
  __device__ void at(std::int64_t p, std::int64_t pair) const {
    const double angle = static_cast<double>(position + p) * frequency[pair];
    const std::int64_t j = first + pair;
    table[p][j] = static_cast<A>(factor * std::cos(angle));
    table[p][j + half] = static_cast<A>(factor * std::sin(angle));
  }
};

template <class H, bool Neighbours>
void rotate(Stream& stream, const TensorView& x, const RotaryHeads& heads,
            const TensorView& positions_T, const TensorView& cos_sin_PR,
            Direction direction) {
  using T = DeviceType<H>;
  using A = Wide<T>;
  constexpr int W = pack_elements<T>;
  const std::int64_t half = cos_sin_PR.dim(1) / 2, width = x.dim(1) / heads.heads;
  const Rotate<T, Neighbours> f{rows_of<H>(x),
                                rows_of<A>(cos_sin_PR),
                                elements_of<std::int32_t>(positions_T),
                                cos_sin_PR.dim(0),
                                static_cast<std::uint32_t>(half),
                                static_cast<std::uint32_t>(width),
                                static_cast<std::uint32_t>(heads.first),
                                direction == Direction::forward ? A(1) : A(-1)};
  const bool aligned = half % W == 0 && width % W == 0 && heads.first % W == 0 &&
                       starts_are_aligned(x) && starts_are_aligned(cos_sin_PR);
  launch_over_rows<W>(stream, {x.dim(0), heads.heads * half}, aligned, f);
}

}  // namespace

void rope(Stream& stream, const TensorView& x, const RotaryHeads& heads,
          const TensorView& positions_T, const TensorView& cos_sin_PR,
          Direction direction) {
  require(x.dim(1) <= std::numeric_limits<std::int32_t>::max(),
          "rope: rows of {} elements are longer than a GPU's kernel counts", x.dim(1));
  require(cos_sin_PR.dim(0) > 0 || x.dim(0) == 0, "rope: the table has no positions");
  visit_floating(x.dtype(), [&]<class H>(H) {
    const auto run = heads.neighbours ? rotate<H, true> : rotate<H, false>;
    run(stream, x, heads, positions_T, cos_sin_PR, direction);
  });
}

void rope_angles(Stream& stream, std::span<const double> frequencies, double factor,
                 const TensorView& cos_sin_PR, std::int64_t position) {
  const std::int64_t half = cos_sin_PR.dim(1) / 2;
  visit_floating(cos_sin_PR.dtype(), [&]<class A>(A) {
    if constexpr (std::is_floating_point_v<A>) {
      for (std::int64_t first = 0; first < half; first += most_pairs) {
        Angles<A> f{rows_of<A>(cos_sin_PR), half, first, position, factor, {}};
        const std::int64_t pairs = std::min(most_pairs, half - first);
        std::copy_n(frequencies.data() + first, pairs, f.frequency);
        launch_over_rows<1>(stream, {cos_sin_PR.dim(0), pairs}, true, f);
      }
    }
  });
}

}  // namespace trireme::kernels::cuda
