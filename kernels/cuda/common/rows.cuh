// Elementwise work over the rows of matrices, in accesses of up to 16 bytes.
// SPDX-License-Identifier: Apache-2.0
// One kernel strides over all elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/split.hpp"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/types.cuh"

namespace trireme::kernels::cuda {

// W neighbours of a row, moved by accesses of 16 bytes, or of all of them if fewer.
template <class T, int W>
struct alignas(W * sizeof(T) < 16 ? W * sizeof(T) : 16) Group {
  T x[W];
};

template <int W, class T>
__device__ inline Group<std::remove_const_t<T>, W> load_group(T* from) {
  return *reinterpret_cast<const Group<std::remove_const_t<T>, W>*>(from);
}
template <class T, int W>
__device__ inline void store_group(T* to, const Group<T, W>& group) {
  store_whole(reinterpret_cast<Group<T, W>*>(to), group);
}

// Row r begins at (*this)[r]. Elements are the device's types.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;
  __device__ T* operator[](std::int64_t r) const { return data + r * stride; }
};

// Rows of a matrix; any other shape (dense) is one row. An empty view has no data.
template <class T>
Rows<DeviceType<T>> rows_of(const TensorView& view) {
  if (view.empty()) return {};
  return {elements_of<T>(view), view.shape().rank() == 2 ? view.stride(0) : 0};
}

// What a kernel over several tensors of one shape runs over: one long row where all are
// dense, else the rows of matrices.
struct Area {
  std::int64_t rows = 0, width = 0;
};
inline Area area_of(std::initializer_list<const TensorView*> views) {
  const TensorView& first = **views.begin();
  const bool dense =
      std::all_of(views.begin(), views.end(), [](auto* v) { return v->is_dense(); });
  if (dense) return {1, first.elements()};
  return {first.dim(0), first.dim(1)};
}

// Whether every row starts at a multiple of 16 bytes. Rows of any width qualify: what is
// left of one beyond whole groups is done element by element.
inline bool starts_are_aligned(const TensorView& x) {
  if (x.empty()) return true;
  const auto start = reinterpret_cast<std::uintptr_t>(x.raw());
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  bool aligned = start % 16 == 0;
  for (int i = 0; i + 1 < x.shape().rank(); ++i)
    aligned = aligned && (x.dim(i) == 1 || x.stride(i) * bytes % 16 == 0);
  return aligned;
}
inline bool starts_are_aligned(std::initializer_list<const TensorView*> views,
                               const Area& area) {
  return std::all_of(views.begin(), views.end(), [&](const TensorView* v) {
    return area.rows == 1 ? reinterpret_cast<std::uintptr_t>(v->raw()) % 16 == 0
                          : starts_are_aligned(*v);
  });
}

// f.at<W>(row, column) for all groups of W columns, f.at<1>() for the columns that are
// left over. A thread writes only the elements of its group, after it has read all that
// it needs of them: outputs may be inputs.
template <int W, class F>
__global__ void over_rows(std::int64_t rows, std::int64_t width, F f) {
  const std::int64_t groups = width / W;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
  for (; row < rows; row += std::int64_t{gridDim.y} * blockDim.y) {
    for (std::int64_t g = first; g < groups; g += step) f.template at<W>(row, g * W);
    if constexpr (W > 1) {
      for (std::int64_t c = groups * W + first; c < width; c += step)
        f.template at<1>(row, c);
    }
  }
}

// Blocks of 256 threads in the shape that wastes fewest on narrow rows.
inline Grid grid_over_rows(const Stream& stream, const Area& area, int W) {
  constexpr std::int64_t threads = 256, most_in_y = 65535;
  const std::int64_t groups = divide_up(area.width, W);
  std::int64_t across = 1;
  while (across < groups && across < threads) across *= 2;
  const std::int64_t down = threads / across;
  const std::int64_t most = striding_blocks(stream, area.rows * groups, threads);
  Grid grid;
  grid.threads = dim3(extent(across), extent(down));
  const std::int64_t in_x = std::min(divide_up(groups, across), most);
  const std::int64_t in_y = std::min(
      {divide_up(area.rows, down), std::max<std::int64_t>(most / in_x, 1), most_in_y});
  grid.blocks = dim3(extent(in_x), extent(in_y));
  return grid;
}

// Runs `f` over `area`, by groups of W where `aligned`.
template <int W, class F>
void launch_over_rows(Stream& stream, const Area& area, bool aligned, const F& f) {
  if (area.rows <= 0 || area.width <= 0) return;
  if (aligned) {
    launch(stream, grid_over_rows(stream, area, W), over_rows<W, F>, area.rows,
           area.width, f);
  } else {
    launch(stream, grid_over_rows(stream, area, 1), over_rows<1, F>, area.rows,
           area.width, f);
  }
}

}  // namespace trireme::kernels::cuda
