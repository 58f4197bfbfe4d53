// Columns of heads on a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/rows.cuh"
#include "kernels/heads.hpp"

namespace trireme::kernels::cuda {
namespace {

// Where the columns of head h begin in a row: h * step + first.
template <class T>
struct Columns {
  Rows<T> rows;
  std::int64_t step, first;
  template <class H>
  static Columns of(const HeadColumns& columns, bool one_for_all = false) {
    const std::int64_t width = columns.x_TE.dim(1) / columns.heads;
    return {rows_of<H>(columns.x_TE), one_for_all ? 0 : width, columns.first};
  }
  __device__ T* at(std::int64_t t, std::int64_t h, std::int64_t i) const {
    return rows[t] + (h * step + first + i);
  }
};

// A column of the area is column c % width of head c / width. Groups do not straddle
// heads.
template <class T>
struct Copy {
  Columns<T> from, to;
  std::int64_t width;
  template <int W>
  __device__ void at(std::int64_t t, std::int64_t c) const {
    const std::int64_t h = c / width, i = c - h * width;
    store_group(to.at(t, h, i), load_group<W>(from.at(t, h, i)));
  }
};

template <class T>
struct Sum {
  Columns<T> from, to;
  std::int64_t heads;
  template <int W>
  __device__ void at(std::int64_t t, std::int64_t c) const {
    Wide<T> sum[W] = {};
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto group = load_group<W>(from.at(t, h, c));
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += widen(group.x[i]);
    }
    Group<T, W> out;
#pragma unroll
    for (int i = 0; i < W; ++i) out.x[i] = narrow<T>(sum[i]);
    store_group(to.at(t, 0, c), out);
  }
};

// Whether groups of W begin at multiples of 16 bytes in every head.
bool is_aligned(const HeadColumns& of, std::int64_t width, std::int64_t W) {
  return starts_are_aligned(of.x_TE) && width % W == 0 && of.first % W == 0 &&
         of.x_TE.dim(1) / of.heads % W == 0;
}

}  // namespace

void copy_heads(Stream& stream, const HeadColumns& from, const HeadColumns& to,
                std::int64_t width) {
  visit_floating(to.x_TE.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    constexpr int W = pack_elements<T>;
    const Copy<T> f{Columns<T>::template of<H>(from, from.heads == 1),
                    Columns<T>::template of<H>(to), width};
    launch_over_rows<W>(stream, {to.x_TE.dim(0), to.heads * width},
                        is_aligned(from, width, W) && is_aligned(to, width, W), f);
  });
}

void sum_heads(Stream& stream, const HeadColumns& from, const HeadColumns& to,
               std::int64_t width) {
  visit_floating(to.x_TE.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    constexpr int W = pack_elements<T>;
    const Sum<T> f{Columns<T>::template of<H>(from), Columns<T>::template of<H>(to),
                   from.heads};
    launch_over_rows<W>(stream, {to.x_TE.dim(0), width},
                        is_aligned(from, width, W) && is_aligned(to, width, W), f);
  });
}

}  // namespace trireme::kernels::cuda
