// Elementwise kernels: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include "base/has_cuda.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/elementwise/elementwise.hpp"
#include "kernels/host/elementwise.hpp"
#include "kernels/runtime/plan_working_memory.hpp"
#include "kernels/runtime/profile.hpp"

namespace trireme::kernels {
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
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::add(stream, a, b, y);
  }
  host::add(a, b, y);
}

void add_bias(Stream& stream, const TensorView& a_TD, const TensorView& b_TD,
              const TensorView& bias_D, const TensorView& y_TD) {
  const Checks check("add_bias", stream);
  check.matrix({"y", y_TD});
  check.tensor({"a", a_TD}, y_TD.dtype(), y_TD.shape());
  check.tensor({"b", b_TD}, y_TD.dtype(), y_TD.shape());
  if (!bias_D.empty()) check.tensor({"bias", bias_D}, y_TD.dtype(), {y_TD.dim(1)});
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda())
      return cuda::add_bias(stream, a_TD, b_TD, bias_D, y_TD);
  }
  host::add_bias(a_TD, b_TD, bias_D, y_TD);
}

void copy(Stream& stream, const TensorView& x, const TensorView& y) {
  const Checks check("copy", stream);
  check.floating({"x", x});
  check.floating({"y", y});
  check.tensor({"y", y}, y.dtype(), x.shape());
  check.dense_or_matrix({"x", x});
  check.dense_or_matrix({"y", y});
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::copy(stream, x, y);
  }
  host::copy(x, y);
}

void fill(Stream& stream, const TensorView& y, double value) {
  check_dense(Checks("fill", stream), {"y", y});
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::fill(stream, y, value);
  }
  host::fill(y, value);
}

void scale(Stream& stream, const TensorView& x, double factor) {
  check_dense(Checks("scale", stream), {"x", x});
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::scale(stream, x, factor);
  }
  host::scale(x, factor);
}

void add_column_sums(Stream& stream, const TensorView& x_TN, const TensorView& sums_N) {
  const Checks check("add_column_sums", stream);
  check.matrix({"x", x_TN});
  check.tensor({"sums", sums_N}, accumulator_of(x_TN.dtype()), {x_TN.dim(1)});
  if (stream.device().is_meta()) {
    plan_working_memory([&] { return cuda::column_sums_workspace(x_TN); });
    return;
  }
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::add_column_sums(stream, x_TN, sums_N);
  }
  host::add_column_sums(x_TN, sums_N);
}

void accumulate(Stream& stream, const TensorView& x, const TensorView& y) {
  const Checks check("accumulate", stream);
  check_dense(check, {"x", x});
  check_dense(check, {"y", y});
  check.tensor({"y", y}, y.dtype(), x.shape());
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::accumulate(stream, x, y);
  }
  host::accumulate(x, y);
}

void sum_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N) {
  check_parts(Checks("sum_parts", stream), parts_PN, out_N);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::sum_parts(stream, parts_PN, out_N);
  }
  host::sum_parts(parts_PN, out_N);
}

void max_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N) {
  check_parts(Checks("max_parts", stream), parts_PN, out_N);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::max_parts(stream, parts_PN, out_N);
  }
  host::max_parts(parts_PN, out_N);
}

double sum_of_squares(Stream& stream, const TensorView& x) {
  check_dense(Checks("sum_of_squares", stream), {"x", x});
  if (stream.device().is_meta()) {
    plan_working_memory([&] { return cuda::sum_workspace(x); });
    return 0.0;
  }
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::sum_of_squares(stream, x);
  }
  return host::sum_of_squares(x);
}

void add_sum_of_squares(Stream& stream, const TensorView& x, const TensorView& sum_1) {
  const Checks check("add_sum_of_squares", stream);
  check_dense(check, {"x", x});
  check.tensor({"sum", sum_1}, DType::f64, {1});
  if (stream.device().is_meta()) {
    plan_working_memory([&] { return cuda::sum_workspace(x); });
    return;
  }
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::add_sum_of_squares(stream, x, sum_1);
  }
  *sum_1.data<double>() += host::sum_of_squares(x);
}

void add_sum(Stream& stream, const TensorView& x, const TensorView& sum_1) {
  const Checks check("add_sum", stream);
  check_dense(check, {"x", x});
  require(x.dtype() == accumulator_of(x.dtype()),
          "add_sum: x is {}, but fp32 or fp64 was expected", name_of(x.dtype()));
  check.tensor({"sum", sum_1}, DType::f64, {1});
  if (stream.device().is_meta()) {
    plan_working_memory([&] { return cuda::sum_workspace(x); });
    return;
  }
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::add_sum(stream, x, sum_1);
  }
  host::add_sum(x, sum_1);
}

bool all_finite(Stream& stream, const TensorView& x) {
  check_dense(Checks("all_finite", stream), {"x", x});
  if (stream.device().is_meta()) {
    plan_working_memory([&] { return cuda::sum_workspace(x); });
    return true;
  }
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::all_finite(stream, x);
  }
  return host::all_finite(x);
}

}  // namespace trireme::kernels
