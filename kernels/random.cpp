// Random initial values.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/random.hpp"

#include "base/philox.hpp"
#include "kernels/kokkos/parallel.hpp"
#include "kernels/runtime.hpp"

namespace trireme::kernels {
namespace {

template <class T>
void fill(const TensorView& x, std::int64_t row_length, std::int64_t first,
          const Random& random, double deviation) {
  const std::int64_t columns = x.shape().rank() == 1 ? 1 : x.dim(1);
  T* const data = x.data<T>();
  for_ranges(
      "fill_normal", x.dim(0), 1, threads(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) {
            const auto index = static_cast<std::uint64_t>(first + i * row_length + j);
            data[i * columns + j] = static_cast<T>(deviation * random.normal(index));
          }
        }
      });
}

}  // namespace

void fill_normal(Stream& stream, const TensorView& x, const Shape& whole,
                 const Shape& begin, std::uint64_t seed, std::uint64_t tensor,
                 double deviation) {
  require(x.is_dense() && x.shape().rank() <= 2 && whole.rank() == x.shape().rank(),
          "fill_normal: a box {} of a tensor {}", x.shape(), whole);
  if (stream.device().is_meta()) return;
  const bool matrix = whole.rank() == 2;
  const std::int64_t row_length = matrix ? whole[1] : 1;
  const std::int64_t first = begin[0] * row_length + (matrix ? begin[1] : 0);
  const Random random(seed, tensor);
  if (x.dtype() == DType::f64) {
    fill<double>(x, row_length, first, random, deviation);
  } else {
    fill<float>(x, row_length, first, random, deviation);
  }
}

}  // namespace trireme::kernels
