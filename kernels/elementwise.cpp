// Elementwise kernels: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include "kernels/checks.hpp"
#include "kernels/cuda/elementwise/demand.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/runtime/plan_working_memory.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(add);
TRIREME_BACK_ENDS(add_bias);
TRIREME_BACK_ENDS(add_to_rows);
TRIREME_BACK_ENDS(copy);
TRIREME_BACK_ENDS(fill);
TRIREME_BACK_ENDS(scale);
TRIREME_BACK_ENDS(soft_cap);
TRIREME_BACK_ENDS(soft_cap_backward);
TRIREME_BACK_ENDS(add_column_sums);
TRIREME_BACK_ENDS(accumulate);
TRIREME_BACK_ENDS(sum_parts);
TRIREME_BACK_ENDS(max_parts);
TRIREME_BACK_ENDS(sum_of_squares);
TRIREME_BACK_ENDS(add_sum_of_squares);
TRIREME_BACK_ENDS(add_sums_of_squares);
TRIREME_BACK_ENDS(add_sum);
TRIREME_BACK_ENDS(all_finite);

namespace {

ProfileFamily family("elementwise");

void check_dense(const Checks& check, Argument argument) {
  check.floating(argument);
  check.dense(argument);
}

// parts is a dense matrix of at least one row, out as long as a row of it.
void check_parts(const Checks& check, const TensorView& parts_PN,
                 const TensorView& out_N) {
  check.matrix({"parts", parts_PN});
  check.dense({"parts", parts_PN});
  require(parts_PN.dim(0) > 0, "a sum or maximum of no parts");
  check.tensor({"out", out_N}, parts_PN.dtype(), {parts_PN.dim(1)});
}

}  // namespace

void add(Stream& stream, const TensorView& a, const TensorView& b, const TensorView& y) {
  const Checks check("add", stream);
  check.floating({"y", y});
  for (const Argument& argument : {Argument{"a", a}, {"b", b}, {"y", y}}) {
    check.tensor(argument, y.dtype(), y.shape());
    check.dense(argument);
  }
  run_kernel<host::add, cuda::add>(family, stream, a, b, y);
}

void add_bias(Stream& stream, const TensorView& a_TD, const TensorView& b_TD,
              const TensorView& bias_D, const TensorView& y_TD) {
  const Checks check("add_bias", stream);
  check.matrix({"y", y_TD});
  check.tensor({"a", a_TD}, y_TD.dtype(), y_TD.shape());
  check.tensor({"b", b_TD}, y_TD.dtype(), y_TD.shape());
  if (!bias_D.empty()) check.tensor({"bias", bias_D}, y_TD.dtype(), {y_TD.dim(1)});
  run_kernel<host::add_bias, cuda::add_bias>(family, stream, a_TD, b_TD, bias_D, y_TD);
}

void add_to_rows(Stream& stream, const TensorView& bias_D, const TensorView& x_TD) {
  const Checks check("add_to_rows", stream);
  check.matrix({"x", x_TD});
  check.tensor({"bias", bias_D}, x_TD.dtype(), {x_TD.dim(1)});
  run_kernel<host::add_to_rows, cuda::add_to_rows>(family, stream, bias_D, x_TD);
}

void copy(Stream& stream, const TensorView& x, const TensorView& y) {
  const Checks check("copy", stream);
  check.floating({"x", x});
  check.floating({"y", y});
  check.tensor({"y", y}, y.dtype(), x.shape());
  check.dense_or_matrix({"x", x});
  check.dense_or_matrix({"y", y});
  run_kernel<host::copy, cuda::copy>(family, stream, x, y);
}

void fill(Stream& stream, const TensorView& y, double value) {
  check_dense(Checks("fill", stream), {"y", y});
  run_kernel<host::fill, cuda::fill>(family, stream, y, value);
}

void scale(Stream& stream, const TensorView& x, double factor) {
  check_dense(Checks("scale", stream), {"x", x});
  run_kernel<host::scale, cuda::scale>(family, stream, x, factor);
}

void soft_cap(Stream& stream, const TensorView& x, double cap) {
  const Checks check("soft_cap", stream);
  check.floating({"x", x});
  check.dense_or_matrix({"x", x});
  require(cap > 0, "soft_cap: the cap is {}, but must be above 0", cap);
  run_kernel<host::soft_cap, cuda::soft_cap>(family, stream, x, cap);
}

void soft_cap_backward(Stream& stream, const TensorView& y, double cap,
                       const TensorView& d) {
  const Checks check("soft_cap_backward", stream);
  for (const Argument& argument : {Argument{"y", y}, {"d", d}}) {
    check.floating(argument);
    check.dense_or_matrix(argument);
  }
  check.tensor({"d", d}, d.dtype(), y.shape());
  require(cap > 0, "soft_cap_backward: the cap is {}, but must be above 0", cap);
  run_kernel<host::soft_cap_backward, cuda::soft_cap_backward>(family, stream, y, cap, d);
}

void add_column_sums(Stream& stream, const TensorView& x_TN, const TensorView& sums_N) {
  const Checks check("add_column_sums", stream);
  check.matrix({"x", x_TN});
  check.tensor({"sums", sums_N}, accumulator_of(x_TN.dtype()), {x_TN.dim(1)});
  plan_working_memory(stream, [&] { return cuda::column_sums_workspace(x_TN); });
  run_kernel<host::add_column_sums, cuda::add_column_sums>(family, stream, x_TN, sums_N);
}

void accumulate(Stream& stream, const TensorView& x, const TensorView& y) {
  const Checks check("accumulate", stream);
  check_dense(check, {"x", x});
  check_dense(check, {"y", y});
  check.tensor({"y", y}, y.dtype(), x.shape());
  run_kernel<host::accumulate, cuda::accumulate>(family, stream, x, y);
}

void sum_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N) {
  check_parts(Checks("sum_parts", stream), parts_PN, out_N);
  run_kernel<host::sum_parts, cuda::sum_parts>(family, stream, parts_PN, out_N);
}

void max_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N) {
  check_parts(Checks("max_parts", stream), parts_PN, out_N);
  run_kernel<host::max_parts, cuda::max_parts>(family, stream, parts_PN, out_N);
}

double sum_of_squares(Stream& stream, const TensorView& x) {
  check_dense(Checks("sum_of_squares", stream), {"x", x});
  plan_working_memory(stream, [&] { return cuda::sum_workspace(x); });
  return run_kernel<host::sum_of_squares, cuda::sum_of_squares>(family, stream, x);
}

void add_sum_of_squares(Stream& stream, const TensorView& x, const TensorView& sum_1) {
  const Checks check("add_sum_of_squares", stream);
  check_dense(check, {"x", x});
  check.tensor({"sum", sum_1}, DType::f64, {1});
  plan_working_memory(stream, [&] { return cuda::sum_workspace(x); });
  run_kernel<host::add_sum_of_squares, cuda::add_sum_of_squares>(family, stream, x,
                                                                 sum_1);
}

void add_sums_of_squares(Stream& stream, std::span<const TensorView> tensors,
                         const TensorView& sum_1) {
  const Checks check("add_sums_of_squares", stream);
  for (const TensorView& x : tensors) {
    check_dense(check, {"x", x});
    require(x.dtype() == tensors[0].dtype(),
            "add_sums_of_squares: a tensor is {}, the first one {}", name_of(x.dtype()),
            name_of(tensors[0].dtype()));
  }
  check.tensor({"sum", sum_1}, DType::f64, {1});
  plan_working_memory(stream, [&] { return cuda::sums_workspace(tensors); });
  run_kernel<host::add_sums_of_squares, cuda::add_sums_of_squares>(family, stream,
                                                                   tensors, sum_1);
}

void add_sum(Stream& stream, const TensorView& x, const TensorView& sum_1) {
  const Checks check("add_sum", stream);
  check_dense(check, {"x", x});
  require(x.dtype() == accumulator_of(x.dtype()),
          "add_sum: x is {}, but fp32 or fp64 was expected", name_of(x.dtype()));
  check.tensor({"sum", sum_1}, DType::f64, {1});
  plan_working_memory(stream, [&] { return cuda::sum_workspace(x); });
  run_kernel<host::add_sum, cuda::add_sum>(family, stream, x, sum_1);
}

bool all_finite(Stream& stream, const TensorView& x) {
  check_dense(Checks("all_finite", stream), {"x", x});
  plan_working_memory(stream, [&] { return cuda::sum_workspace(x); });
  if (stream.device().is_meta()) return true;
  return run_kernel<host::all_finite, cuda::all_finite>(stream, x);
}

}  // namespace trireme::kernels
