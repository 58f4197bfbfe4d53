// Rows of tokens sorted by expert, on the host.
// SPDX-License-Identifier: Apache-2.0
// Legend: T tokens, K experts of a token, E experts, N and R sorted rows, D width.
#include "kernels/moe.hpp"

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::host {

void sort_by_expert(Stream& /*stream*/, const TensorView& choice_TK,
                    const TensorView& rows_E, const TensorView& row_TK,
                    const TensorView& token_N) {
  const auto choice = choice_TK.span<std::int32_t>();
  const auto rows = rows_E.span<std::int32_t>();
  const auto row = row_TK.span<std::int32_t>();
  std::int32_t* const token = token_N.data<std::int32_t>();
  const auto K = static_cast<std::size_t>(choice_TK.dim(1));
  static thread_local Scratch scratch("next row of each expert");
  auto* const next = scratch.take<std::int32_t>(rows_E.dim(0));
  std::fill(rows.begin(), rows.end(), 0);
  for (const std::int32_t e : choice)
    if (e >= 0) ++rows[static_cast<std::size_t>(e)];
  std::int32_t begin = 0;
  for (std::size_t e = 0; e < rows.size(); ++e) {
    next[e] = begin;
    begin += rows[e];
  }
  for (std::size_t i = 0; i < choice.size(); ++i) {
    row[i] = choice[i] < 0 ? -1 : next[choice[i]]++;
    if (row[i] >= 0) token[row[i]] = static_cast<std::int32_t>(i / K);
  }
}

void gather_rows(Stream& /*stream*/, const TensorView& x_TD, const TensorView& index_R,
                 const TensorView& y_RD) {
  visit_floating(y_RD.dtype(), [&]<class T>(T) {
    const auto x = rows_of<const T>(x_TD);
    const auto y = rows_of<T>(y_RD);
    const std::int32_t* const index = index_R.data<std::int32_t>();
    const std::int64_t D = y_RD.dim(1);
    for_rows("gather_rows", y_RD.dim(0), D, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) std::copy_n(x[index[r]], D, y[r]);
    });
  });
}

void scatter_rows(Stream& /*stream*/, const TensorView& x_RD, const TensorView& index_R,
                  const TensorView& y_RD) {
  visit_floating(y_RD.dtype(), [&]<class T>(T) {
    const auto x = rows_of<const T>(x_RD);
    const auto y = rows_of<T>(y_RD);
    const std::int32_t* const index = index_R.data<std::int32_t>();
    const std::int64_t D = y_RD.dim(1);
    for_rows("scatter_rows", y_RD.dim(0), D, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) std::copy_n(x[r], D, y[index[r]]);
    });
  });
}

namespace {

// Null where each token has a row of its own.
const std::int32_t* places_of(const TensorView& row_TK) {
  return row_TK.empty() ? nullptr : row_TK.data<std::int32_t>();
}

}  // namespace

// Sums are kept in the accumulator type for a block of columns and rounded once.
void combine_rows(Stream& /*stream*/, const TensorView& rows_ND, const TensorView& row_TK,
                  const TensorView& weights_TK, Accumulate accumulate,
                  const TensorView& y_TD) {
  const bool adds = accumulate == Accumulate::yes;
  visit_floating(y_TD.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto rows = rows_of<const T>(rows_ND);
    const auto y = rows_of<T>(y_TD);
    const auto weights = rows_of<const A>(weights_TK);
    const std::int32_t* const row = places_of(row_TK);
    const std::int64_t D = y_TD.dim(1), K = row != nullptr ? row_TK.dim(1) : 1;
    constexpr std::int64_t block = 256;
    const auto one = [&](std::int64_t t, std::int64_t first, std::int64_t count) {
      A sum[block];
      T* const to = y[t] + first;
      for (std::int64_t d = 0; d < count; ++d) sum[d] = adds ? load(to[d]) : A(0);
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t r = row != nullptr ? row[t * K + k] : t;
        if (r < 0) continue;
        const T* from = rows[r] + first;
        const A w = weights.data ? weights[t][k] : A(1);
#pragma omp simd
        for (std::int64_t d = 0; d < count; ++d) sum[d] += w * load(from[d]);
      }
#pragma omp simd
      for (std::int64_t d = 0; d < count; ++d) to[d] = store<T>(sum[d]);
    };
    for_rows("combine_rows", y_TD.dim(0), K * D,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t t = begin; t < end; ++t)
                 for (std::int64_t d = 0; d < D; d += block)
                   one(t, d, std::min(block, D - d));
             });
  });
}

void combine_rows_backward(Stream& /*stream*/, const TensorView& dy_TD,
                           const TensorView& rows_ND, const TensorView& row_TK,
                           const TensorView& weights_TK, const TensorView& drows_ND,
                           const TensorView& dweights_TK) {
  visit_floating(dy_TD.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto dy = rows_of<const T>(dy_TD);
    const auto rows = rows_of<const T>(rows_ND);
    const auto drows = rows_of<T>(drows_ND);
    const auto weights = rows_of<const A>(weights_TK);
    const auto dweights = rows_of<A>(dweights_TK);
    const std::int32_t* const row = places_of(row_TK);
    const std::int64_t D = dy_TD.dim(1), K = row != nullptr ? row_TK.dim(1) : 1;
    const auto one = [&](std::int64_t t, std::int64_t k) {
      const std::int64_t r = row != nullptr ? row[t * K + k] : t;
      A dw = 0;
      if (r >= 0) {
        const T *from = dy[t], *x = rows[r];
        T* const to = drows[r];
        const A w = weights[t][k];
#pragma omp simd reduction(+ : dw)
        for (std::int64_t d = 0; d < D; ++d) {
          dw += load(from[d]) * load(x[d]);
          to[d] = store<T>(w * load(from[d]));
        }
      }
      dweights[t][k] = dw;
    };
    for_rows("combine_rows_backward", dy_TD.dim(0), K * D,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t t = begin; t < end; ++t)
                 for (std::int64_t k = 0; k < K; ++k) one(t, k);
             });
  });
}

}  // namespace trireme::kernels::host
