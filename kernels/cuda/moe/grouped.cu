// The products of all experts in one launch: blocks stride over the tiles of all experts.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_machine/shared.cuh>

#include "kernels/cuda/gemm/tile.cuh"
#include "kernels/cuda/moe/grouped.hpp"
#include "kernels/gemm.hpp"

namespace trireme::kernels::cuda {
namespace {

using Tile = tile::Large;

enum class Form { forward, input_gradient, weight_gradient };

constexpr int most_groups = 256;  // of a launch, whose arguments have 4 KiB at most

// The experts of a launch that have rows, and the tiles of each.
struct Groups {
  int count = 0;
  std::int32_t expert[most_groups];
  std::int32_t first_row[most_groups], rows[most_groups];
  std::int32_t tiles_end = 0;
};

// C = A B for each group, in the notation of gemm/tile.cuh. By form:
//   forward          y [rows, O] = x [rows, I] W^T        a x, b W by rows of O
//   input_gradient   dx [rows, I] = dy [rows, O] W        a dy, b W, a row for each k
//   weight_gradient  dW [O, I] += dy^T x                  a dy, b x, a row for each k
template <class T, class C>
struct Products {
  Rows<T> a, b;
  Rows<C> c;
  std::int64_t outputs, columns, depth;  // O, N, and K where it is not the group's rows
  Groups groups;
};

template <Form form, class T, class C>
__global__ void __launch_bounds__(Tile::threads, 2)
    grouped_product_kernel(Products<T, C> of) {
  constexpr bool by_weight = form == Form::weight_gradient;
  constexpr bool a_by_k = by_weight, b_by_k = form != Form::forward;
  const std::int64_t across = (of.columns + Tile::columns - 1) / Tile::columns;
  int group = -1;
  std::int64_t begin = 0, end = 0, rows = 0, first = 0, weight = 0;
  for (std::int64_t at = blockIdx.x; at < of.groups.tiles_end; at += gridDim.x) {
    while (at >= end) {  // tiles of a block are of rising groups
      ++group;
      begin = end;
      rows = of.groups.rows[group];
      first = of.groups.first_row[group];
      weight = of.groups.expert[group] * of.outputs;
      const std::int64_t height = by_weight ? of.outputs : rows;
      end = begin + (height + Tile::rows - 1) / Tile::rows * across;
    }
    const std::int64_t m = (at - begin) / across * Tile::rows;
    const std::int64_t n = (at - begin) % across * Tile::columns;
    const std::int64_t M = by_weight ? of.outputs : rows, N = of.columns;
    const std::int64_t K = by_weight ? rows : of.depth;
    const T* const a = of.a[first];
    const T* const b = of.b[by_weight ? first : weight];
    tile::Sums<Tile, T> sums;
    tile::multiply<Tile, a_by_k, b_by_k, true, T>(
        {a_by_k ? a + m : a + m * of.a.stride, of.a.stride, M - m, K},
        {b_by_k ? b + n : b + n * of.b.stride, of.b.stride, N - n, K},
        dynamic_shared<T>(), sums);
    tile::store<by_weight, Tile, T>(sums, of.c[(by_weight ? weight : first) + m] + n,
                                    of.c.stride, M - m, N - n);
  }
}

template <Form form, class T, class C>
void launch_products(Stream& stream, const Products<T, C>& of) {
  constexpr bool a_by_k = form == Form::weight_gradient, b_by_k = form != Form::forward;
  Grid grid;
  const std::int64_t resident = std::int64_t{2} * multiprocessors(stream);
  grid.blocks = dim3(extent(std::min<std::int64_t>(of.groups.tiles_end, resident)));
  grid.threads = dim3(Tile::threads);
  grid.shared_bytes = sizeof(T) * tile::shared_elements<Tile, T, a_by_k, b_by_k>;
  launch(stream, grid, grouped_product_kernel<form, T, C>, of);
}

std::int64_t tiles_of(std::int64_t rows, std::int64_t columns) {
  return divide_up(rows, Tile::rows) * divide_up(columns, Tile::columns);
}

// Whether one launch serves better than a product for each expert: see grouped.hpp.
bool is_for_one_launch(const Stream& stream, std::span<const std::int32_t> rows_E,
                       const TensorView& a, const TensorView& b, const TensorView& c,
                       std::int64_t outputs, Form form) {
  if (a.dtype() != DType::bf16 && a.dtype() != DType::f16) return false;
  if (!is_packed(a) || !is_packed(b) || !is_packed(c)) return false;
  if (a.elements() == 0 || b.elements() == 0 || c.elements() == 0) return false;
  if (independent_rows()) return true;  // as each row of a tile is, whatever the others
  std::int64_t experts = 0, tiles = 0;
  for (const std::int64_t rows : rows_E) {
    if (rows == 0) continue;
    ++experts;
    tiles += tiles_of(form == Form::weight_gradient ? outputs : rows, c.dim(1));
  }
  // Several times as many tiles as multiprocessors, of which the last round wastes few.
  constexpr std::int64_t rounds = 4;
  return tiles < experts * rounds * multiprocessors(stream);
}

template <Form form, class T, class C>
void run_products(Stream& stream, std::span<const std::int32_t> rows_E,
                  Products<T, C>& of) {
  std::int32_t first = 0, expert = 0;
  Groups& groups = of.groups;
  for (const std::int32_t rows : rows_E) {
    if (rows > 0) {
      groups.expert[groups.count] = expert;
      groups.first_row[groups.count] = first;
      groups.rows[groups.count] = rows;
      ++groups.count;
      groups.tiles_end += static_cast<std::int32_t>(
          tiles_of(form == Form::weight_gradient ? of.outputs : rows, of.columns));
    }
    first += rows;
    ++expert;
    const bool last = expert == static_cast<std::int32_t>(rows_E.size());
    if (groups.count == most_groups || (last && groups.count > 0)) {
      launch_products<form>(stream, of);
      groups.count = groups.tiles_end = 0;
    }
  }
}

template <Form form>
bool grouped(Stream& stream, std::span<const std::int32_t> rows_E, const TensorView& a,
             const TensorView& b, const TensorView& c, std::int64_t outputs,
             std::int64_t depth) {
  if (!is_for_one_launch(stream, rows_E, a, b, c, outputs, form)) return false;
  const auto run = [&]<class H, class HC>(H, HC) {
    Products<DeviceType<H>, DeviceType<HC>> of{};
    of.a = rows_of<H>(a);
    of.b = rows_of<H>(b);
    of.c = rows_of<HC>(c);
    of.outputs = outputs;
    of.columns = c.dim(1);
    of.depth = depth;
    run_products<form>(stream, rows_E, of);
  };
  const auto with_result = [&]<class H>(H) {
    if (c.dtype() == DType::f32) {
      run(H{}, float{});
    } else {
      run(H{}, H{});
    }
  };
  if (a.dtype() == DType::bf16) {
    with_result(BFloat16{});
  } else {
    with_result(Float16{});
  }
  return true;
}

std::int64_t outputs_of(std::span<const std::int32_t> rows_E, const TensorView& weights) {
  return weights.dim(0) / static_cast<std::int64_t>(rows_E.size());
}

}  // namespace

bool grouped_linear(Stream& stream, std::span<const std::int32_t> rows_E,
                    const TensorView& x_RI, const TensorView& weights_EOI,
                    const TensorView& y_RO) {
  return grouped<Form::forward>(stream, rows_E, x_RI, weights_EOI, y_RO,
                                outputs_of(rows_E, weights_EOI), x_RI.dim(1));
}

bool grouped_linear_input_gradient(Stream& stream, std::span<const std::int32_t> rows_E,
                                   const TensorView& dy_RO, const TensorView& weights_EOI,
                                   const TensorView& dx_RI) {
  return grouped<Form::input_gradient>(stream, rows_E, dy_RO, weights_EOI, dx_RI,
                                       outputs_of(rows_E, weights_EOI), dy_RO.dim(1));
}

bool grouped_linear_weight_gradient(Stream& stream, std::span<const std::int32_t> rows_E,
                                    const TensorView& dy_RO, const TensorView& x_RI,
                                    const TensorView& dweights_EOI) {
  return grouped<Form::weight_gradient>(stream, rows_E, dy_RO, x_RI, dweights_EOI,
                                        outputs_of(rows_E, dweights_EOI), 0);
}

}  // namespace trireme::kernels::cuda
