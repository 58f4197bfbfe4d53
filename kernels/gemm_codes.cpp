// gemm_codes(): on codes where there is such a path, else on their numbers.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_codes.hpp"

#include <algorithm>

#include "base/split.hpp"
#include "kernels/coded_matrix.hpp"
#include "kernels/cuda/codes/few_rows.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/gemm.hpp"
#include "kernels/gemm/code_rows.hpp"
#include "kernels/gemm/extents.hpp"
#include "kernels/gemm/path.hpp"
#include "kernels/gemm/row_products.hpp"
#include "kernels/runtime/product_counts.hpp"
#include "kernels/runtime/profile.hpp"

namespace trireme::kernels {
namespace {

ProfileFamily family("gemm, codes");

// f(box, row) for boxes of `rows` rows of the weight, `row` counted from the first.
template <class F>
void for_boxes(const WeightCodes& w, const Range& rows, const F& f) {
  for (const PlacedCodes& box : w.boxes)
    if (box.begin[0] >= rows.begin && box.begin[0] < rows.end)
      f(box, box.begin[0] - rows.begin);
}

bool have_whole_rows(const WeightCodes& w, std::int64_t K) {
  return std::all_of(w.boxes.begin(), w.boxes.end(), [&](const PlacedCodes& box) {
    return box.begin[1] == 0 && box.codes.matrix.shape[1] == K;
  });
}

// Decodes the boxes of these rows.
void decode_rows(Stream& stream, const WeightCodes& w, const Range& rows) {
  for_boxes(w, rows, [&](const PlacedCodes& box, std::int64_t row) {
    const Shape& shape = box.codes.matrix.shape;
    decode_matrix(
        stream, box.codes.matrix,
        w.numbers.rows(rows.begin + row, shape[0]).columns(box.begin[1], shape[1]));
  });
}

// A product of part of C, of a box of W and of its part of the bias.
template <class F>
void multiply_boxes(const WeightCodes& w, const Range& rows, const TensorView& c,
                    const TensorView& bias, const F& multiply) {
  for_boxes(w, rows, [&](const PlacedCodes& box, std::int64_t row) {
    const CodedMatrix& matrix = box.codes.matrix;
    multiply(c.columns(row, matrix.shape[0]), matrix,
             bias.empty() ? bias : bias.rows(row, matrix.shape[0]));
  });
}

// Whether a GPU reads the codes of these rows of W: not where rows are to be independent,
// for few rows are summed in another order than many.
bool reads_on_gpu(const TensorView& a, const WeightCodes& w, const Range& rows) {
  bool reads =
      !independent_rows() && a.dim(0) <= cuda::most_code_rows && a.dtype() != DType::f64;
  for_boxes(w, rows, [&](const PlacedCodes& box, std::int64_t) {
    reads = reads && cuda::reads_code_rows(box.codes.matrix);
  });
  return reads;
}

}  // namespace

void gemm_codes(Stream& stream, const TensorView& c, const TensorView& a,
                const WeightCodes& w, const TensorView& bias, std::int64_t first) {
  const Range rows{first, first + c.dim(1)};
  const TensorView numbers_NK = w.numbers.rows(rows.begin, rows.count());
  const auto multiply_numbers = [&] {
    gemm(stream, c, a, Transpose::no, numbers_NK, Transpose::yes, Accumulate::no, bias);
  };
  if (stream.device().is_meta()) return multiply_numbers();
  const GemmExtents extents =
      check_gemm(c, a, Transpose::no, numbers_NK, Transpose::yes, Accumulate::no, bias);
  if (extents.m == 0 || extents.n == 0) return;
  const bool on_gpu = stream.device().is_cuda();
  const ProductPath path = choose_path(
      product_of(c, a, Transpose::no, numbers_NK, Transpose::yes, Accumulate::no, bias));
  const bool reads_codes =
      on_gpu ? reads_on_gpu(a, w, rows)
             : path == ProductPath::few_rows || path == ProductPath::by_rows;
  if (!reads_codes || extents.k == 0 || !have_whole_rows(w, extents.k)) {
    decode_rows(stream, w, rows);
    return multiply_numbers();
  }
  const CountedProduct counted(a.dtype(), numbers_NK.dtype());
  const ProfileScope scope(family);
  multiply_boxes(
      w, rows, c, bias,
      [&](const TensorView& part, const CodedMatrix& matrix, const TensorView& added) {
        if (on_gpu) {
          try_on_cuda<cuda::gemm_code_rows>(stream, part, a, matrix, added);
        } else if (path == ProductPath::few_rows) {
          gemm_few_rows(part, a, matrix, added);
        } else {
          gemm_by_rows(part, a, matrix, added);
        }
      });
}

}  // namespace trireme::kernels
