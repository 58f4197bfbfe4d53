// Dropout on a host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dropout.hpp"

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/math/dropout.hpp"

namespace trireme::kernels::host {

void dropout(Stream& /*stream*/, const DropoutKey& key, double rate,
             const TensorView& positions_T, const TensorView& x_TD,
             const TensorView& y_TD) {
  const std::int64_t D = y_TD.dim(1);
  const math::DropoutMask mask(key, rate, D);
  const auto* const positions = positions_T.data<std::int32_t>();
  visit_floating(y_TD.dtype(), [&]<class T>(T) {
    const auto x = rows_of<const T>(x_TD);
    const auto y = rows_of<T>(y_TD);
    const auto scale = static_cast<Accumulator<T>>(1 / (1 - rate));
    for_rows("dropout", y_TD.dim(0), D, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t row = mask.row(t, positions[t]);
        for (std::int64_t j = 0; j < D; ++j)
          y[t][j] = mask.keeps(row, j) ? store<T>(load(x[t][j]) * scale)
                                       : store<T>(Accumulator<T>(0));
      }
    });
  });
}

}  // namespace trireme::kernels::host
