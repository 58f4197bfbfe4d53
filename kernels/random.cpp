// Random initial values: numbers for the logical elements of a box, made on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/random.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "base/philox.hpp"
#include "kernels/host/normal_numbers.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

// Where the elements of a dense box lie in the whole tensor.
struct Box {
  std::int64_t columns, row_length, first;
  std::uint64_t index(std::int64_t i) const {
    return static_cast<std::uint64_t>(first + i / columns * row_length + i % columns);
  }
  // Elements from i on, i included, that follow each other in the whole tensor as well.
  std::int64_t run(std::int64_t i) const {
    return columns == row_length ? std::numeric_limits<std::int64_t>::max()
                                 : columns - i % columns;
  }
};

void draw_run(const Random& random, std::uint64_t first, double deviation,
              std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = deviation * random.normal(first + i);
}

void draw_run(const Random& random, std::uint64_t first, double deviation,
              std::span<float> out) {
  normal_numbers(random, first, deviation, out);
}

// data[i - begin] = element i of the box, for i in [begin, end).
template <class T>
void draw(const Box& box, std::int64_t begin, std::int64_t end, const Random& random,
          double deviation, T* data) {
  for_ranges("fill_normal", end - begin, 256, threads(),
             [&](std::int64_t from, std::int64_t to) {
               for (std::int64_t i = from, next; i < to; i = next) {
                 next = i + std::min(to - i, box.run(begin + i));
                 draw_run(random, box.index(begin + i), deviation,
                          std::span(data + i, static_cast<std::size_t>(next - i)));
               }
             });
}

// Also for a GPU the host draws, piece by piece: logarithm and cosine differ between the
// libraries of host and GPU in last bits, and a run shall start from the same weights
// wherever it computes. It is done once.
template <class T>
void fill(Stream& stream, const TensorView& x, const Box& box, const Random& random,
          double deviation) {
  const std::int64_t n = x.elements();
  if (n == 0) return;
  if (stream.device().is_host()) return draw(box, 0, n, random, deviation, x.data<T>());
  constexpr std::int64_t most = 1 << 22;
  const Buffer piece(Device::host(), dtype_of<T>, {std::min(n, most)},
                     MemoryClass::workspace, "initial values");
  const TensorView flat = x.reshape({n});
  for (std::int64_t begin = 0; begin < n; begin += most) {
    const TensorView part = piece.view().rows(0, std::min(most, n - begin));
    draw(box, begin, begin + part.elements(), random, deviation, part.data<T>());
    copy_bytes(stream, part, flat.rows(begin, part.elements()));
  }
}

}  // namespace

void fill_normal(Stream& stream, const TensorView& x, const Shape& whole,
                 const Shape& begin, std::uint64_t seed, std::uint64_t tensor,
                 double deviation) {
  require(x.is_dense() && x.shape().rank() <= 2 && whole.rank() == x.shape().rank(),
          "fill_normal: a box {} of a tensor {}", x.shape(), whole);
  if (stream.device().is_meta()) return;
  require(x.device() == stream.device(), "fill_normal: x is not on the stream's device");
  const bool matrix = whole.rank() == 2;
  const std::int64_t row_length = matrix ? whole[1] : 1;
  const Box box{matrix ? x.dim(1) : 1, row_length,
                begin[0] * row_length + (matrix ? begin[1] : 0)};
  const Random random(seed, tensor);
  if (x.dtype() == DType::f64) {
    fill<double>(stream, x, box, random, deviation);
  } else {
    fill<float>(stream, x, box, random, deviation);
  }
}

}  // namespace trireme::kernels
