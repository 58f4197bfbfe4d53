// Table lookup and its gradient in double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/embedding.hpp"

namespace trireme::kernels::reference {

std::vector<double> embedding(std::span<const std::int32_t> index_T,
                              std::span<const double> table_RD, std::size_t D,
                              std::int64_t first) {
  std::vector<double> y(index_T.size() * D);
  const auto R = static_cast<std::int64_t>(table_RD.size() / D);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::int64_t row = index_T[i / D] - first;
    if (row >= 0 && row < R) y[i] = table_RD[static_cast<std::size_t>(row) * D + i % D];
  }
  return y;
}

std::vector<double> embedding_backward(std::span<const double> dy_TD,
                                       std::span<const std::int32_t> index_T,
                                       std::size_t R, std::size_t D, std::int64_t first) {
  std::vector<double> dtable(R * D);
  for (std::size_t i = 0; i < dy_TD.size(); ++i) {
    const std::int64_t row = index_T[i / D] - first;
    if (row >= 0 && row < static_cast<std::int64_t>(R))
      dtable[static_cast<std::size_t>(row) * D + i % D] += dy_TD[i];
  }
  return dtable;
}

}  // namespace trireme::kernels::reference
