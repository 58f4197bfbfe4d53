// Products of bf16 and f16 through f32: the numbers are in docs/decisions/gemm.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/converted.hpp"

#include <algorithm>

#include "base/split.hpp"
#include "kernels/gemm/convert.hpp"
#include "kernels/gemm/even_part.hpp"
#include "kernels/gemm/onednn.hpp"
#include "kernels/gemm/workspace.hpp"

namespace trireme::kernels {
namespace {

// Elements of each working block: they should still be in a cache when they are used.
constexpr std::int64_t left_elements = 1 << 22;
constexpr std::int64_t right_elements = 1 << 20;
constexpr std::int64_t right_elements_few_rows = 1 << 17;  // B is read once: keep it near
constexpr std::int64_t few_rows = 64;
constexpr std::int64_t result_elements = 1 << 20;
constexpr std::int64_t most_depth = 4096;  // of K
constexpr std::int64_t least_width = 256;  // of N, so that A is not read too often

float* workspace_f32(WorkspaceUse use, std::int64_t elements) {
  return static_cast<float*>(
      workspace(use, static_cast<std::size_t>(elements) * sizeof(float)));
}

// One product, cut into parts: N outermost; K outside M, so that B is converted once; a C
// that is not f32 is kept in f32 until its sums are complete and rounded once.
struct Converted {
  TensorView c, a, b;
  bool transpose_a, transpose_b, accumulate;
  const float* bias;     // in f32, or null
  std::int64_t m, n, k;  // extents
  std::int64_t m_part = 0, n_part = 0, k_part = 0;

  bool copy_c() const { return c.dtype() != DType::f32; }
  void choose_parts();
  void run();
  void run_columns(Range columns);
  const float* convert_left(Range rows, Range depth, bool fresh);
  const float* convert_right(Range columns, Range depth);
};

void Converted::choose_parts() {
  k_part = even_part(k, most_depth, 16);
  const std::int64_t right = m <= few_rows ? right_elements_few_rows : right_elements;
  n_part = std::max(least_width, right / k_part);
  if (copy_c()) n_part = std::min(n_part, std::max(least_width, result_elements / m));
  n_part = even_part(n, n_part, 64);
  m_part = even_part(m, left_elements / k_part, 64);
}

// The block of A as it is stored, in f32; `fresh`: it is not yet in the working memory.
const float* Converted::convert_left(Range rows, Range depth, bool fresh) {
  float* out = workspace_f32(WorkspaceUse::left, rows.count() * depth.count());
  if (!fresh) return out;
  convert_to_f32(transpose_a
                     ? part(a, depth.begin, rows.begin, depth.count(), rows.count())
                     : part(a, rows.begin, depth.begin, rows.count(), depth.count()),
                 out);
  return out;
}

const float* Converted::convert_right(Range columns, Range depth) {
  float* out = workspace_f32(WorkspaceUse::right, columns.count() * depth.count());
  convert_to_f32(
      transpose_b ? part(b, columns.begin, depth.begin, columns.count(), depth.count())
                  : part(b, depth.begin, columns.begin, depth.count(), columns.count()),
      out);
  return out;
}

void Converted::run_columns(Range columns) {
  const std::int64_t width = columns.count();
  const Matrix target = part(c, 0, columns.begin, m, width);
  Matrix sums = target;
  if (copy_c()) {
    sums = {workspace_f32(WorkspaceUse::result, m * width), DType::f32, m, width, width};
    if (accumulate) convert_to_f32(target, static_cast<float*>(sums.data));
  }
  if (bias != nullptr) fill_rows(bias + columns.begin, sums);
  const bool one_left = m_part == m && k_part == k;
  for (std::int64_t at = 0; at < k; at += k_part) {
    const Range depth{at, std::min(k, at + k_part)};
    const float* right = convert_right(columns, depth);
    for (std::int64_t row = 0; row < m; row += m_part) {
      const Range rows{row, std::min(m, row + m_part)};
      const float* left = convert_left(rows, depth, !one_left || columns.begin == 0);
      Product p{.m = rows.count(), .n = width, .k = depth.count()};
      p.transposed_left = transpose_a;
      p.transposed_right = transpose_b;
      p.a_stride = transpose_a ? p.m : p.k;
      p.b_stride = transpose_b ? p.k : p.n;
      p.c_stride = sums.stride;
      p.accumulate = accumulate || bias != nullptr || at > 0;
      multiply_f32(p, left, right, static_cast<float*>(sums.data) + row * sums.stride);
    }
  }
  if (copy_c()) round_from_f32(static_cast<const float*>(sums.data), target);
}

void Converted::run() {
  choose_parts();
  for (std::int64_t column = 0; column < n; column += n_part)
    run_columns({column, std::min(n, column + n_part)});
}

}  // namespace

void gemm_converted(const TensorView& c, const TensorView& a, Transpose transpose_a,
                    const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                    const TensorView& bias) {
  float* bias_f32 = nullptr;
  if (!bias.empty()) {
    bias_f32 = workspace_f32(WorkspaceUse::bias, c.dim(1));
    convert_to_f32({bias.raw(), bias.dtype(), 1, c.dim(1), c.dim(1)}, bias_f32);
  }
  Converted{.c = c,
            .a = a,
            .b = b,
            .transpose_a = transpose_a == Transpose::yes,
            .transpose_b = transpose_b == Transpose::yes,
            .accumulate = accumulate == Accumulate::yes,
            .bias = bias_f32,
            .m = c.dim(0),
            .n = c.dim(1),
            .k = a.dim(transpose_a == Transpose::yes ? 0 : 1)}
      .run();
}

}  // namespace trireme::kernels
