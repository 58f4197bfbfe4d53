// Fused products: the library's kernel if it has one, else one kernel after another.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_epilogue.hpp"

#include "kernels/checks.hpp"
#include "kernels/cuda/gemm/gemm.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm/extents.hpp"
#include "kernels/runtime/product_counts.hpp"
#include "kernels/runtime/profile.hpp"

namespace trireme::kernels {
namespace {

ProfileFamily family("gemm, fused");

// Whether a GPU did the whole at once. A product of no elements is not asked for, nor is
// one of independent rows, which a library does not promise.
bool at_once(Stream& stream, const TensorView& c, const TensorView& a,
             Transpose transpose_a, const TensorView& b, Transpose transpose_b,
             Accumulate accumulate, const cuda::GemmEpilogue& epilogue) {
  if (!stream.device().is_cuda()) return false;
  if (independent_rows() && transpose_a == Transpose::no) return false;
  if (c.elements() == 0 || a.elements() == 0 || b.elements() == 0) return false;
  const ProfileScope scope(family);
  if (!try_on_cuda<cuda::gemm_with>(stream, c, a, transpose_a, b, transpose_b, accumulate,
                                    epilogue))
    return false;
  const CountedProduct counted(a.dtype(), b.dtype());
  return true;
}

// Libraries fuse GELU alone.
bool is_fused(Activation kind) {
  require(!row_of(kind).gated, Status::internal, "{} is gated", row_of(kind).name);
  return kind == Activation::gelu;
}

}  // namespace

void gemm_activate(Stream& stream, Activation kind, const TensorView& y_MN,
                   const TensorView& u_MN, const TensorView& a, Transpose transpose_a,
                   const TensorView& b, Transpose transpose_b, const TensorView& bias_N) {
  const Checks check("gemm_activate", stream);
  check.matrix({"a", a});
  check.matrix({"b", b});
  check.matrix({"y", y_MN});
  check.tensor({"y", y_MN}, a.dtype(), y_MN.shape());
  check.tensor({"u", u_MN}, y_MN.dtype(), y_MN.shape());
  check_gemm(y_MN, a, transpose_a, b, transpose_b, Accumulate::no, bias_N);
  if (is_fused(kind) &&
      at_once(stream, y_MN, a, transpose_a, b, transpose_b, Accumulate::no,
              {cuda::GemmEpilogue::Kind::gelu, bias_N, u_MN}))
    return;
  gemm(stream, u_MN, a, transpose_a, b, transpose_b, Accumulate::no, bias_N);
  activate(stream, kind, u_MN, y_MN);
}

void gemm_activate_backward(Stream& stream, Activation kind, const TensorView& du_MN,
                            const TensorView& u_MN, const TensorView& a,
                            Transpose transpose_a, const TensorView& b,
                            Transpose transpose_b) {
  const Checks check("gemm_activate_backward", stream);
  check.matrix({"a", a});
  check.matrix({"b", b});
  check.matrix({"du", du_MN});
  check.tensor({"du", du_MN}, a.dtype(), du_MN.shape());
  check.tensor({"u", u_MN}, du_MN.dtype(), du_MN.shape());
  check_gemm(du_MN, a, transpose_a, b, transpose_b, Accumulate::no, {});
  if (is_fused(kind) &&
      at_once(stream, du_MN, a, transpose_a, b, transpose_b, Accumulate::no,
              {cuda::GemmEpilogue::Kind::gelu_backward, {}, u_MN}))
    return;
  gemm(stream, du_MN, a, transpose_a, b, transpose_b);
  activate_backward(stream, kind, du_MN, u_MN, du_MN);
}

void gemm_column_sums(Stream& stream, const TensorView& c_ON, const TensorView& sums_O,
                      const TensorView& a_TO, const TensorView& b_TN,
                      Accumulate accumulate) {
  const Checks check("gemm_column_sums", stream);
  check.matrix({"a", a_TO});
  check.matrix({"b", b_TN});
  check.matrix({"c", c_ON});
  check.tensor({"sums", sums_O}, accumulator_of(a_TO.dtype()), {a_TO.dim(1)});
  check_gemm(c_ON, a_TO, Transpose::yes, b_TN, Transpose::no, accumulate, {});
  if (at_once(stream, c_ON, a_TO, Transpose::yes, b_TN, Transpose::no, accumulate,
              {cuda::GemmEpilogue::Kind::column_sums, sums_O, {}}))
    return;
  gemm(stream, c_ON, a_TO, Transpose::yes, b_TN, Transpose::no, accumulate);
  add_column_sums(stream, a_TO, sums_O);
}

}  // namespace trireme::kernels
