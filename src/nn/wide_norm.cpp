// WideNorm: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/wide_norm.hpp"

#include <array>

#include "kernels/elementwise.hpp"
#include "kernels/split_norm.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

WideNorm::WideNorm(Param gain, std::int64_t width, double eps, Range owned,
                   const parallel::TensorRegion& region)
    : gain_(std::move(gain)), width_(width), eps_(eps), owned_(owned), region_(region) {}

void WideNorm::forward(Pass& pass, const TensorView& x_TE, Saved& saved) const {
  Stream& stream = pass.stream;
  const DType dtype = x_TE.dtype(), sums = accumulator_of(dtype);
  const std::int64_t T = x_TE.dim(0);
  saved.x_TE = pass.saved.take(dtype, x_TE.shape(), "wide norm.x");
  saved.rstd_T = pass.saved.take(sums, {T}, "wide norm.rstd");
  const ArenaScope scope(pass.scratch);
  const TensorView squares_T = pass.scratch.take(sums, {T}, "wide norm.squares");
  // 1. sums of squares, of all ranks
  kernels::copy(stream, x_TE, saved.x_TE);
  if (owned_.count() > 0) {
    const TensorView mine = saved.x_TE.columns(owned_.begin, owned_.count());
    kernels::row_products(stream, mine, mine, {}, squares_T);
  } else {
    kernels::fill(stream, squares_T, 0.0);
  }
  region_.sum(stream, squares_T);
  // 2. y = x rstd gain
  kernels::split_rms_norm(stream, saved.x_TE, in_type(pass, gain_.value, dtype),
                          squares_T, width_, eps_, x_TE, saved.rstd_T);
}

void WideNorm::backward(Pass& pass, const TensorView& d_TE, const Saved& saved) {
  Stream& stream = pass.stream;
  const DType dtype = d_TE.dtype(), sums = accumulator_of(dtype);
  const std::int64_t T = d_TE.dim(0), E = d_TE.dim(1);
  const TensorView dgain_E = pass.fused_target(gain_, sums);
  const ArenaScope scope(pass.scratch);
  const TensorView gain_E = in_type(pass, gain_.value, dtype);
  const TensorView products_T = pass.scratch.take(sums, {T}, "wide norm.products");
  const TensorView terms_TE = pass.scratch.take(sums, {T, E}, "wide norm.terms");
  // 2. Each rank's part of a gradient adds its part of the average
  kernels::row_products(stream, d_TE, saved.x_TE, gain_E, products_T);
  region_.sum(stream, products_T);
  // 1. What the average takes is taken once, where a column is owned
  const std::array<Range, 3> parts = {Range{0, owned_.begin}, owned_,
                                      Range{owned_.end, E}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Range& part = parts[i];
    if (part.count() == 0) continue;
    const auto of = [&](const TensorView& x_TE) {
      return x_TE.columns(part.begin, part.count());
    };
    kernels::split_rms_norm_backward(
        stream, of(d_TE), of(saved.x_TE), gain_E.rows(part.begin, part.count()),
        saved.rstd_T, i == 1 ? products_T : TensorView(), width_, of(d_TE), of(terms_TE));
  }
  kernels::add_column_sums(stream, terms_TE, dgain_E);
  pass.add_fused(gain_, dgain_E);
}

}  // namespace trireme::nn
