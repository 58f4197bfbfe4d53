// Rotary position embedding on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope.hpp"

#include <cmath>

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/math/rope.hpp"

namespace trireme::kernels::host {
namespace {

// One head of width 2 * half; sign = -1 rotates backward.
template <class T>
void rotate(T* x, const Accumulator<T>* cosine, const Accumulator<T>* sine,
            Accumulator<T> sign, std::int64_t half) {
#pragma omp simd
  for (std::int64_t j = 0; j < half; ++j) {
    const auto a = load(x[j]), b = load(x[j + half]);
    const auto s = sign * sine[j];
    const auto turned = math::rotated(a, b, cosine[j], s);
    x[j] = store<T>(turned.first);
    x[j + half] = store<T>(turned.second);
  }
}

}  // namespace

void rope(Stream& /*stream*/, const TensorView& x_, std::int64_t heads,
          const TensorView& positions_T, const TensorView& cos_sin_PK,
          Direction direction) {
  const std::int64_t P = cos_sin_PK.dim(0), K = cos_sin_PK.dim(1), half = K / 2;
  const std::int32_t* const positions = positions_T.data<std::int32_t>();
  for (std::int64_t t = 0; t < x_.dim(0); ++t)
    require(positions[t] >= 0 && positions[t] < P,
            "rope: position {} of row {} is not in the table of {} positions",
            positions[t], t, P);
  visit_floating(x_.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto x = rows_of<T>(x_);
    const auto table = rows_of<const A>(cos_sin_PK);
    const A sign = direction == Direction::forward ? A(1) : A(-1);
    for_rows("rope", x_.dim(0), x_.dim(1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const A* const cosine = table[positions[t]];
        for (std::int64_t h = 0; h < heads; ++h)
          rotate(x[t] + h * K, cosine, cosine + half, sign, half);
      }
    });
  });
}

void rope_table(Stream& /*stream*/, double theta, const TensorView& cos_sin_PK,
                const RopeScaling& scaling) {
  const std::int64_t half = cos_sin_PK.dim(1) / 2;
  const double a = scaling.attention_factor;
  visit_floating(cos_sin_PK.dtype(), [&]<class A>(A) {
    if constexpr (std::is_floating_point_v<A>) {
      const auto table = rows_of<A>(cos_sin_PK);
      for_rows("rope_table", cos_sin_PK.dim(0), 64 * half,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t j = 0; j < half; ++j) {
                   const double frequency = math::rope_frequency(j, half, theta, scaling);
                   for (std::int64_t p = begin; p < end; ++p) {
                     const double angle = static_cast<double>(p) * frequency;
                     table[p][j] = static_cast<A>(a * std::cos(angle));
                     table[p][j + half] = static_cast<A>(a * std::sin(angle));
                   }
                 }
               });
    }
  });
}

}  // namespace trireme::kernels::host
