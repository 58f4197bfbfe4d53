// Rotary position embedding on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope.hpp"

#include <cmath>

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/math/rope.hpp"

namespace trireme::kernels::host {
namespace {

// The pairs of one head: numbers j and j + half of `x`, or 2 j and 2 j + 1. sign = -1
// rotates backward.
template <bool Neighbours, class T>
void rotate(T* x, const Accumulator<T>* cosine, const Accumulator<T>* sine,
            Accumulator<T> sign, std::int64_t half) {
#pragma omp simd
  for (std::int64_t j = 0; j < half; ++j) {
    T& first = x[Neighbours ? 2 * j : j];
    T& second = x[Neighbours ? 2 * j + 1 : j + half];
    const auto a = load(first), b = load(second);
    const auto s = sign * sine[j];
    const auto turned = math::rotated(a, b, cosine[j], s);
    first = store<T>(turned.first);
    second = store<T>(turned.second);
  }
}

}  // namespace

void rope(Stream& /*stream*/, const TensorView& x_, const RotaryHeads& heads,
          const TensorView& positions_T, const TensorView& cos_sin_PR,
          Direction direction) {
  const std::int64_t P = cos_sin_PR.dim(0), half = cos_sin_PR.dim(1) / 2;
  const std::int64_t K = x_.dim(1) / heads.heads;
  const std::int32_t* const positions = positions_T.data<std::int32_t>();
  for (std::int64_t t = 0; t < x_.dim(0); ++t)
    require(positions[t] >= 0 && positions[t] < P,
            "rope: position {} of row {} is not in the table of {} positions",
            positions[t], t, P);
  visit_floating(x_.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto x = rows_of<T>(x_);
    const auto table = rows_of<const A>(cos_sin_PR);
    const A sign = direction == Direction::forward ? A(1) : A(-1);
    const auto turn = heads.neighbours ? rotate<true, T> : rotate<false, T>;
    for_rows("rope", x_.dim(0), x_.dim(1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const A* const cosine = table[positions[t]];
        for (std::int64_t h = 0; h < heads.heads; ++h)
          turn(x[t] + h * K + heads.first, cosine, cosine + half, sign, half);
      }
    });
  });
}

void rope_angles(Stream& /*stream*/, std::span<const double> frequencies, double factor,
                 const TensorView& cos_sin_PR, std::int64_t first) {
  const std::int64_t half = cos_sin_PR.dim(1) / 2;
  visit_floating(cos_sin_PR.dtype(), [&]<class A>(A) {
    if constexpr (std::is_floating_point_v<A>) {
      const auto table = rows_of<A>(cos_sin_PR);
      for_rows("rope_table", cos_sin_PR.dim(0), 64 * half,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t j = 0; j < half; ++j) {
                   const double frequency = frequencies[static_cast<std::size_t>(j)];
                   for (std::int64_t p = begin; p < end; ++p) {
                     const double angle = static_cast<double>(first + p) * frequency;
                     table[p][j] = static_cast<A>(factor * std::cos(angle));
                     table[p][j + half] = static_cast<A>(factor * std::sin(angle));
                   }
                 }
               });
    }
  });
}

}  // namespace trireme::kernels::host
