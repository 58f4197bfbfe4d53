// Rows sorted by expert: checks, then the device's code; gemm() multiplies them.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe.hpp"

#include <limits>
#include <numeric>
#include <span>

#include "base/split.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/moe/demand.hpp"
#include "kernels/cuda/moe/grouped.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/gemm.hpp"
#include "kernels/runtime/plan_working_memory.hpp"
#include "kernels/runtime/product_counts.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(sort_by_expert);
TRIREME_BACK_ENDS(gather_rows);
TRIREME_BACK_ENDS(scatter_rows);
TRIREME_BACK_ENDS(combine_rows);
TRIREME_BACK_ENDS(combine_rows_backward);

namespace {

ProfileFamily family("expert rows"), products("gemm, experts");

void check_pairs(const Checks& check, Argument argument, std::int64_t tokens) {
  const std::int64_t K = argument.view.shape().rank() == 2 ? argument.view.dim(1) : 0;
  check.tensor(argument, DType::i32, {tokens, K});
  check.dense(argument);
}

// The places of each token's rows, which may be left out where each token has its own.
// Returns the shape of the pairs.
Shape check_places(const Checks& check, const TensorView& row_TK, std::int64_t tokens,
                   const TensorView& rows_ND) {
  if (!row_TK.empty()) {
    check_pairs(check, {"row", row_TK}, tokens);
    return row_TK.shape();
  }
  check.tensor({"rows", rows_ND}, rows_ND.dtype(), {tokens, rows_ND.dim(1)});
  return {tokens, 1};
}

// Two matrices of one width and type, and the index of the rows of `by_row`.
void check_rows(const Checks& check, Argument x, Argument y, const TensorView& by_row,
                const TensorView& index_R) {
  check.matrix(x);
  check.tensor(y, x.view.dtype(), {y.view.dim(0), x.view.dim(1)});
  check.tensor({"index", index_R}, DType::i32, {by_row.dim(0)});
}

// A product of each expert's weights with its share of the rows, as if all had as many.
void meter_experts(const Stream& stream, std::size_t experts, const TensorView& x_RI,
                   const TensorView& weights_EOI) {
  if (experts == 0) return;
  const auto E = static_cast<std::int64_t>(experts);
  const std::int64_t rows = divide_up(x_RI.dim(0), E), O = weights_EOI.dim(0) / E;
  for (std::int64_t e = 0; e < E && rows > 0; ++e)
    meter_product(stream, x_RI.dtype(), rows, O, weights_EOI.dim(1),
                  static_cast<double>(weights_EOI.bytes() + 2 * x_RI.bytes()) /
                      static_cast<double>(E));
}

// All experts at once, if a GPU can: at_once() says whether it did. Else the weights and
// rows of each expert with rows: f(weights, first row, rows), in the order of experts.
template <class A, class F>
void for_experts(Stream& stream, std::span<const std::int32_t> rows_E,
                 const TensorView& x_RI, const TensorView& weights_EOI, const A& at_once,
                 const F& f) {
  const Checks check("grouped_linear", stream);
  check.matrix({"x", x_RI});
  check.matrix({"weights", weights_EOI});
  if (stream.device().is_meta()) {
    meter_experts(stream, rows_E.size(), x_RI, weights_EOI);
    return;
  }
  const auto experts = static_cast<std::int64_t>(rows_E.size());
  require(experts > 0 && weights_EOI.dim(0) % experts == 0,
          "weights {} are not those of {} experts", weights_EOI.shape(), experts);
  const auto total = std::accumulate(rows_E.begin(), rows_E.end(), std::int64_t{0});
  require(total == x_RI.dim(0), "{} rows were given to experts that have {}", x_RI.dim(0),
          total);
  if (stream.device().is_cuda()) {
    const ProfileScope scope(products);
    if (at_once()) {
      const CountedProduct counted(x_RI.dtype(), x_RI.dtype(), total > 0);
      return;
    }
  }
  const std::int64_t O = weights_EOI.dim(0) / experts;
  std::int64_t first = 0, e = 0;
  for (const std::int64_t rows : rows_E) {
    if (rows > 0) f(weights_EOI.rows(e * O, O), first, rows);
    first += rows;
    ++e;
  }
}

}  // namespace

void sort_by_expert(Stream& stream, const TensorView& choice_TK, const TensorView& rows_E,
                    const TensorView& row_TK, const TensorView& token_N) {
  const Checks check("sort_by_expert", stream);
  check_pairs(check, {"choice", choice_TK}, choice_TK.dim(0));
  check_pairs(check, {"row", row_TK}, choice_TK.dim(0));
  check.tensor({"row", row_TK}, DType::i32, choice_TK.shape());
  check.tensor({"rows", rows_E}, DType::i32, {rows_E.elements()});
  check.tensor({"token", token_N}, DType::i32, {choice_TK.elements()});
  require(choice_TK.elements() <= std::numeric_limits<std::int32_t>::max(),
          "{} rows of a microbatch are too many", choice_TK.elements());
  plan_working_memory(stream, [&] {
    return cuda::count_choices_workspace(choice_TK.elements(), rows_E.dim(0));
  });
  run_kernel<host::sort_by_expert, cuda::sort_by_expert>(family, stream, choice_TK,
                                                         rows_E, row_TK, token_N);
}

void gather_rows(Stream& stream, const TensorView& x_TD, const TensorView& index_R,
                 const TensorView& y_RD) {
  const Checks check("gather_rows", stream);
  check_rows(check, {"x", x_TD}, {"y", y_RD}, y_RD, index_R);
  run_kernel<host::gather_rows, cuda::gather_rows>(family, stream, x_TD, index_R, y_RD);
}

void scatter_rows(Stream& stream, const TensorView& x_RD, const TensorView& index_R,
                  const TensorView& y_RD) {
  const Checks check("scatter_rows", stream);
  check_rows(check, {"x", x_RD}, {"y", y_RD}, x_RD, index_R);
  check.tensor({"y", y_RD}, x_RD.dtype(), x_RD.shape());
  run_kernel<host::scatter_rows, cuda::scatter_rows>(family, stream, x_RD, index_R, y_RD);
}

void combine_rows(Stream& stream, const TensorView& rows_ND, const TensorView& row_TK,
                  const TensorView& weights_TK, Accumulate accumulate,
                  const TensorView& y_TD) {
  const Checks check("combine_rows", stream);
  check.matrix({"rows", rows_ND});
  check.tensor({"y", y_TD}, rows_ND.dtype(), {y_TD.dim(0), rows_ND.dim(1)});
  const Shape pairs = check_places(check, row_TK, y_TD.dim(0), rows_ND);
  if (!weights_TK.empty())
    check.tensor({"weights", weights_TK}, accumulator_of(y_TD.dtype()), pairs);
  run_kernel<host::combine_rows, cuda::combine_rows>(family, stream, rows_ND, row_TK,
                                                     weights_TK, accumulate, y_TD);
}

void combine_rows_backward(Stream& stream, const TensorView& dy_TD,
                           const TensorView& rows_ND, const TensorView& row_TK,
                           const TensorView& weights_TK, const TensorView& drows_ND,
                           const TensorView& dweights_TK) {
  const Checks check("combine_rows_backward", stream);
  const DType wide = accumulator_of(dy_TD.dtype());
  check.matrix({"dy", dy_TD});
  check.tensor({"rows", rows_ND}, dy_TD.dtype(), {rows_ND.dim(0), dy_TD.dim(1)});
  check.tensor({"drows", drows_ND}, dy_TD.dtype(), rows_ND.shape());
  const Shape pairs = check_places(check, row_TK, dy_TD.dim(0), rows_ND);
  check.tensor({"weights", weights_TK}, wide, pairs);
  check.tensor({"dweights", dweights_TK}, wide, pairs);
  run_kernel<host::combine_rows_backward, cuda::combine_rows_backward>(
      family, stream, dy_TD, rows_ND, row_TK, weights_TK, drows_ND, dweights_TK);
}

void grouped_linear(Stream& stream, std::span<const std::int32_t> rows_E,
                    const TensorView& x_RI, const TensorView& weights_EOI,
                    const TensorView& y_RO) {
  for_experts(
      stream, rows_E, x_RI, weights_EOI,
      [&] {
        return try_on_cuda<cuda::grouped_linear>(stream, rows_E, x_RI, weights_EOI, y_RO);
      },
      [&](const TensorView& weight_OI, std::int64_t first, std::int64_t rows) {
        gemm(stream, y_RO.rows(first, rows), x_RI.rows(first, rows), Transpose::no,
             weight_OI, Transpose::yes);
      });
}

void grouped_linear_input_gradient(Stream& stream, std::span<const std::int32_t> rows_E,
                                   const TensorView& dy_RO, const TensorView& weights_EOI,
                                   const TensorView& dx_RI) {
  for_experts(
      stream, rows_E, dy_RO, weights_EOI,
      [&] {
        return try_on_cuda<cuda::grouped_linear_input_gradient>(stream, rows_E, dy_RO,
                                                                weights_EOI, dx_RI);
      },
      [&](const TensorView& weight_OI, std::int64_t first, std::int64_t rows) {
        gemm(stream, dx_RI.rows(first, rows), dy_RO.rows(first, rows), Transpose::no,
             weight_OI, Transpose::no);
      });
}

void grouped_linear_weight_gradient(Stream& stream, std::span<const std::int32_t> rows_E,
                                    const TensorView& dy_RO, const TensorView& x_RI,
                                    const TensorView& dweights_EOI) {
  for_experts(
      stream, rows_E, x_RI, dweights_EOI,
      [&] {
        return try_on_cuda<cuda::grouped_linear_weight_gradient>(stream, rows_E, dy_RO,
                                                                 x_RI, dweights_EOI);
      },
      [&](const TensorView& dweight_OI, std::int64_t first, std::int64_t rows) {
        gemm(stream, dweight_OI, dy_RO.rows(first, rows), Transpose::yes,
             x_RI.rows(first, rows), Transpose::no, Accumulate::yes);
      });
}

}  // namespace trireme::kernels
