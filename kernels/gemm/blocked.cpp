// Products through packed blocks: why and how much faster is in docs/decisions/gemm.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/blocked.hpp"

#include <algorithm>

#include "base/split.hpp"
#include "kernels/gemm/onednn.hpp"
#include "kernels/gemm/pack.hpp"
#include "kernels/gemm/workspace.hpp"

namespace trireme::kernels {
namespace {

// Elements of each working block: they should still be in a cache when they are used.
constexpr std::int64_t right_elements = 3 << 19;   // a block of B when B is cut
constexpr std::int64_t right_uncut = 13 << 18;     // B is not cut up to here
constexpr std::int64_t left_elements = 1 << 18;    // a block of A
constexpr std::int64_t result_elements = 1 << 19;  // a block of C
constexpr std::int64_t most_depth = 4096;          // of K
constexpr std::int64_t least_width = 256;  // of N, so that A is not copied too often

// The length of even parts of `total`, multiples of `unit` but for the last, none longer
// than `most` (which may be exceeded up to `unit`).
std::int64_t even_part(std::int64_t total, std::int64_t most, std::int64_t unit) {
  const std::int64_t parts = divide_up(total, std::max(most, unit));
  return std::min(total, divide_up(divide_up(total, parts), unit) * unit);
}

float* workspace_f32(WorkspaceUse use, std::int64_t elements) {
  return static_cast<float*>(
      workspace(use, static_cast<std::size_t>(elements) * sizeof(float)));
}

// The part of a stored matrix at (row, column).
Matrix part(const TensorView& t, std::int64_t row, std::int64_t column, std::int64_t rows,
            std::int64_t columns) {
  const auto offset = static_cast<std::size_t>(row * t.stride(0) + column);
  return {static_cast<const char*>(t.raw()) + offset * size_of(t.dtype()), t.dtype(),
          rows, columns, t.stride(0)};
}

struct Blocked {
  TensorView c, a, b, bias;
  bool transpose_a, transpose_b, accumulate;
  std::int64_t m, n, k;  // extents
  std::int64_t m_part, n_part, k_part;
  bool copy_a, copy_c, panels;

  void run();
  void choose_parts();
  void choose_copies(bool must_copy_a, bool must_copy_c);
  Product product(std::int64_t rows, std::int64_t columns, std::int64_t depth) const;
  void place_right(Range columns, Range depth);
  const float* place_left(Range rows, Range depth, bool fresh);
  void run_columns(Range columns, const float* bias_f32);
};

Product Blocked::product(std::int64_t rows, std::int64_t columns,
                         std::int64_t depth) const {
  Product p;
  p.m = rows;
  p.n = columns;
  p.k = depth;
  p.a_stride = copy_a ? depth : a.stride(0);
  p.right = panels ? RightLayout::panels : RightLayout::plain;
  p.b_stride = columns;
  p.c_stride = copy_c ? columns : c.stride(0);
  p.accumulate = accumulate;
  p.bias = !bias.empty();
  return p;
}

void Blocked::choose_parts() {
  k_part = even_part(k, most_depth, 16);
  n_part = n;
  if (packed_elements(k_part, n) > right_uncut)
    n_part = even_part(n, right_elements / k_part, panel_columns);
  choose_copies(transpose_a || a.dtype() != DType::f32, c.dtype() != DType::f32);
  if (copy_c)
    n_part = even_part(n, std::min(n_part, std::max(least_width, result_elements / m)),
                       panel_columns);
  m_part = copy_a ? even_part(m, left_elements / k_part, 64) : m;
}

// oneDNN 2 has its fast kernel for dense rows alone, newer versions for any: the fewest
// copies with which there is one. Without panels (processors that it has no such kernel
// for) its other kernels take any rows.
void Blocked::choose_copies(bool must_copy_a, bool must_copy_c) {
  panels = true;
  for (const bool also_c : {false, true}) {
    for (const bool also_a : {false, true}) {
      copy_a = must_copy_a || also_a;
      copy_c = must_copy_c || also_c;
      if (is_fast(product(m, n_part, k_part))) return;
    }
  }
  panels = false;
  copy_a = must_copy_a;
  copy_c = must_copy_c;
}

void Blocked::place_right(Range columns, Range depth) {
  const Matrix block =
      transpose_b ? part(b, columns.begin, depth.begin, columns.count(), depth.count())
                  : part(b, depth.begin, columns.begin, depth.count(), columns.count());
  if (panels) {
    pack_panels(block, transpose_b ? Transpose::yes : Transpose::no,
                workspace_f32(WorkspaceUse::right,
                              packed_elements(depth.count(), columns.count())));
    return;
  }
  float* out = workspace_f32(WorkspaceUse::right, depth.count() * columns.count());
  if (transpose_b) {
    transpose_to_f32(block, out, columns.count());
  } else {
    convert_to_f32(block, out, columns.count());
  }
}

// Where the block of A is; `fresh`: it is not yet in the working memory.
const float* Blocked::place_left(Range rows, Range depth, bool fresh) {
  const Matrix block =
      transpose_a ? part(a, depth.begin, rows.begin, depth.count(), rows.count())
                  : part(a, rows.begin, depth.begin, rows.count(), depth.count());
  if (!copy_a) return static_cast<const float*>(block.data);
  float* out = workspace_f32(WorkspaceUse::left, rows.count() * depth.count());
  if (!fresh) return out;
  if (transpose_a) {
    transpose_to_f32(block, out, depth.count());
  } else {
    convert_to_f32(block, out, depth.count());
  }
  return out;
}

// All rows of the columns: K outside M, so that B is packed once; a copied C is kept in
// f32 until its sums are complete and rounded once.
void Blocked::run_columns(Range columns, const float* bias_f32) {
  const std::int64_t width = columns.count();
  const Matrix target = part(c, 0, columns.begin, m, width);
  auto* out = copy_c ? workspace_f32(WorkspaceUse::result, m * width)
                     : static_cast<float*>(const_cast<void*>(target.data));
  if (copy_c && accumulate) convert_to_f32(target, out, width);
  const bool one_left = m_part == m && k_part == k;
  for (std::int64_t depth = 0; depth < k; depth += k_part) {
    const Range inner{depth, std::min(k, depth + k_part)};
    place_right(columns, inner);
    const auto* right = workspace_f32(WorkspaceUse::right, 0);
    for (std::int64_t row = 0; row < m; row += m_part) {
      const Range rows{row, std::min(m, row + m_part)};
      Product p = product(rows.count(), width, inner.count());
      p.accumulate = accumulate || depth > 0;
      p.bias = bias_f32 != nullptr && depth == 0;
      const float* left = place_left(rows, inner, !one_left || columns.begin == 0);
      multiply(p, left, right, out + row * p.c_stride,
               p.bias ? bias_f32 + columns.begin : nullptr);
    }
  }
  if (!copy_c) return;
  const Matrix sums{out, DType::f32, m, width, width};
  round_from_f32(sums, const_cast<void*>(target.data), c.dtype(), c.stride(0));
}

void Blocked::run() {
  choose_parts();
  const float* bias_f32 = nullptr;
  if (!bias.empty()) {
    float* out = workspace_f32(WorkspaceUse::bias, n);
    convert_to_f32({bias.raw(), bias.dtype(), 1, n, n}, out, n);
    bias_f32 = out;
  }
  for (std::int64_t column = 0; column < n; column += n_part)
    run_columns({column, std::min(n, column + n_part)}, bias_f32);
}

}  // namespace

void gemm_blocked(const TensorView& c, const TensorView& a, Transpose transpose_a,
                  const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                  const TensorView& bias) {
  Blocked work{};
  work.c = c;
  work.a = a;
  work.b = b;
  work.bias = bias;
  work.transpose_a = transpose_a == Transpose::yes;
  work.transpose_b = transpose_b == Transpose::yes;
  work.accumulate = accumulate == Accumulate::yes;
  work.m = c.dim(0);
  work.n = c.dim(1);
  work.k = a.dim(work.transpose_a ? 0 : 1);
  work.run();
}

}  // namespace trireme::kernels
