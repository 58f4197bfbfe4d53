// Lengths of rows: checks, then the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/row_lengths.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

namespace host {
decltype(kernels::add_row_squares) add_row_squares;
decltype(kernels::take_roots) take_roots;
decltype(kernels::divide_by_lengths) divide_by_lengths;
decltype(kernels::scale_columns) scale_columns;
decltype(kernels::add_column_products) add_column_products;
}  // namespace host

namespace {

ProfileFamily family("row lengths");

// Whether there is something to do, which a host alone can.
bool runs(const Stream& stream, const TensorView& x) {
  if (stream.device().is_meta() || x.elements() == 0) return false;
  require(stream.device().is_host(), "lengths of rows are made on hosts");
  return true;
}

}  // namespace

void add_row_squares(Stream& stream, const TensorView& x_NK,
                     const TensorView& squares_N) {
  const Checks check("add_row_squares", stream);
  check.matrix({"matrix", x_NK});
  check.tensor({"squares", squares_N}, DType::f64, {x_NK.dim(0)});
  if (!runs(stream, x_NK)) return;
  const ProfileScope scope(family);
  host::add_row_squares(stream, x_NK, squares_N);
}

void take_roots(Stream& stream, const TensorView& x_N, DType rounded) {
  const Checks check("take_roots", stream);
  check.tensor({"squares", x_N}, DType::f64, {x_N.dim(0)});
  require(rounded == DType::f32 || rounded == DType::f64,
          "take_roots: lengths are numbers of f32 or f64");
  if (!runs(stream, x_N)) return;
  const ProfileScope scope(family);
  host::take_roots(stream, x_N, rounded);
}

void divide_by_lengths(Stream& stream, const TensorView& x_N, const TensorView& lengths_N,
                       double at_zero, const TensorView& y_N) {
  const Checks check("divide_by_lengths", stream);
  check.floating({"numbers", x_N});
  check.tensor({"lengths", lengths_N}, DType::f64, x_N.shape());
  check.tensor({"quotients", y_N}, DType::f64, x_N.shape());
  if (!runs(stream, x_N)) return;
  const ProfileScope scope(family);
  host::divide_by_lengths(stream, x_N, lengths_N, at_zero, y_N);
}

void scale_columns(Stream& stream, const TensorView& x_TN, const TensorView& factors_N,
                   const TensorView& y_TN) {
  const Checks check("scale_columns", stream);
  check.matrix({"x", x_TN});
  check.tensor({"y", y_TN}, x_TN.dtype(), x_TN.shape());
  check.tensor({"factors", factors_N}, DType::f64, {x_TN.dim(1)});
  if (!runs(stream, x_TN)) return;
  const ProfileScope scope(family);
  host::scale_columns(stream, x_TN, factors_N, y_TN);
}

void add_column_products(Stream& stream, const TensorView& x_TN, const TensorView& y_TN,
                         const TensorView& sums_N) {
  const Checks check("add_column_products", stream);
  check.matrix({"x", x_TN});
  check.tensor({"y", y_TN}, x_TN.dtype(), x_TN.shape());
  check.tensor({"sums", sums_N}, DType::f64, {x_TN.dim(1)});
  if (!runs(stream, x_TN)) return;
  const ProfileScope scope(family);
  host::add_column_products(stream, x_TN, y_TN, sums_N);
}

}  // namespace trireme::kernels
