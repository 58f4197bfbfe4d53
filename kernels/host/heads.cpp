// Columns of heads on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/heads.hpp"

#include <algorithm>

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::host {

void copy_heads(Stream& /*stream*/, const HeadColumns& from, const HeadColumns& to,
                std::int64_t width) {
  visit_floating(to.x_TE.dtype(), [&]<class T>(T) {
    const auto x = rows_of<const T>(from.x_TE);
    const auto y = rows_of<T>(to.x_TE);
    const std::int64_t A = from.x_TE.dim(1) / from.heads, B = to.x_TE.dim(1) / to.heads;
    for_rows("copy_heads", to.x_TE.dim(0), to.heads * width,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t t = begin; t < end; ++t)
                 for (std::int64_t h = 0; h < to.heads; ++h)
                   std::copy_n(x[t] + (from.heads == 1 ? 0 : h) * A + from.first, width,
                               y[t] + h * B + to.first);
             });
  });
}

void sum_heads(Stream& /*stream*/, const HeadColumns& from, const HeadColumns& to,
               std::int64_t width) {
  visit_floating(to.x_TE.dtype(), [&]<class T>(T) {
    const auto x = rows_of<const T>(from.x_TE);
    const auto y = rows_of<T>(to.x_TE);
    const std::int64_t A = from.x_TE.dim(1) / from.heads;
    for_rows("sum_heads", to.x_TE.dim(0), from.heads * width,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t t = begin; t < end; ++t)
                 for (std::int64_t i = 0; i < width; ++i) {
                   Accumulator<T> sum = 0;
                   for (std::int64_t h = 0; h < from.heads; ++h)
                     sum += load(x[t][h * A + from.first + i]);
                   y[t][to.first + i] = store<T>(sum);
                 }
             });
  });
}

}  // namespace trireme::kernels::host
