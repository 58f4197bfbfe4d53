// Table lookup and its gradient on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.hpp"

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::host {

void embedding(Stream& /*stream*/, const TensorView& index_T, const TensorView& table_RD,
               std::int64_t first, Accumulate accumulate, const TensorView& y_TD) {
  const bool adds = accumulate == Accumulate::yes;
  visit_floating(y_TD.dtype(), [&]<class T>(T) {
    const auto table = rows_of<const T>(table_RD);
    const auto y = rows_of<T>(y_TD);
    const std::int32_t* const index = index_T.data<std::int32_t>();
    const std::int64_t R = table_RD.dim(0), D = y_TD.dim(1);
    for_rows("embedding", y_TD.dim(0), D, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t row = index[t] - first;
        const bool here = row >= 0 && row < R;
        T* to = y[t];
        if (here && adds) {
          const T* from = table[row];
#pragma omp simd
          for (std::int64_t d = 0; d < D; ++d)
            to[d] = store<T>(load(to[d]) + load(from[d]));
        } else if (here) {
          std::copy_n(table[row], D, to);
        } else if (!adds) {
          std::fill_n(to, D, T(0.0f));
        }
      }
    });
  });
}

// Threads share the columns, not the rows: each walks all rows in order, so that repeated
// indices need neither atomics nor partial tables, and the order never changes.
void embedding_backward(Stream& /*stream*/, const TensorView& dy_TD,
                        const TensorView& index_T, std::int64_t first,
                        const TensorView& dtable_RD) {
  visit_floating(dy_TD.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto dy = rows_of<const T>(dy_TD);
    const auto dtable = rows_of<A>(dtable_RD);
    const std::int32_t* const index = index_T.data<std::int32_t>();
    const std::int64_t rows = dy_TD.dim(0), R = dtable_RD.dim(0), D = dy_TD.dim(1);
    const std::int64_t grain =
        std::max<std::int64_t>(64, divide_up(D, std::max(threads(), 1)));
    for_ranges("embedding_backward", D, grain, threads(),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t t = 0; t < rows; ++t) {
                   const std::int64_t row = index[t] - first;
                   if (row < 0 || row >= R) continue;
                   const T* from = dy[t];
                   A* to = dtable[row];
#pragma omp simd
                   for (std::int64_t d = begin; d < end; ++d) to[d] += load(from[d]);
                 }
               });
  });
}

}  // namespace trireme::kernels::host
