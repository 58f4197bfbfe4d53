// Windows of tensors: some rows, or some elements of one.
// SPDX-License-Identifier: Apache-2.0
#include "train/box_windows.hpp"

#include "base/boxes.hpp"

namespace trireme::train {

std::vector<BoxWindow> windows_of(const Shape& shape, std::int64_t most) {
  std::vector<BoxWindow> windows;
  if (shape.elements() == 0) return windows;
  // Of the first dimension whose slices fit, some are taken at a time.
  int dim = 0;
  std::int64_t slice = shape.elements() / shape[0];
  while (dim + 1 < shape.rank() && slice > most) slice /= shape[++dim];
  const std::int64_t at_once = rows_at_once(shape[dim], slice, most);
  BoxWindow next{origin_of(shape), shape};
  for (int i = 0; i < dim; ++i) next.extent[i] = 1;
  for (;;) {
    next.extent[dim] = std::min(at_once, shape[dim] - next.begin[dim]);
    windows.push_back(next);
    next.begin[dim] += at_once;
    for (int i = dim; next.begin[i] >= shape[i]; --i) {
      if (i == 0) return windows;
      next.begin[i] = 0;
      ++next.begin[i - 1];
    }
  }
}

TensorView part_of(const TensorView& whole, const BoxWindow& window) {
  if (whole.shape().rank() == 1) return whole.rows(window.begin[0], window.extent[0]);
  if (whole.shape().rank() == 2)
    return whole.rows(window.begin[0], window.extent[0])
        .columns(window.begin[1], window.extent[1]);
  std::int64_t first = 0;
  for (int i = 0; i < whole.shape().rank(); ++i)
    first = first * whole.dim(i) + window.begin[i];
  const auto bytes = first * static_cast<std::int64_t>(size_of(whole.dtype()));
  return {static_cast<std::byte*>(whole.raw()) + bytes, whole.dtype(), window.extent,
          whole.device()};
}

BoxWindow common_part(const BoxWindow& a, const BoxWindow& b) {
  BoxWindow common = a;
  for (int i = 0; i < a.begin.rank(); ++i) {
    common.begin[i] = std::max(a.begin[i], b.begin[i]);
    common.extent[i] = std::max<std::int64_t>(
        0,
        std::min(a.begin[i] + a.extent[i], b.begin[i] + b.extent[i]) - common.begin[i]);
  }
  return common;
}

BoxWindow inside(const BoxWindow& inner, const BoxWindow& outer) {
  BoxWindow part = inner;
  for (int i = 0; i < part.begin.rank(); ++i) part.begin[i] -= outer.begin[i];
  return part;
}

}  // namespace trireme::train
