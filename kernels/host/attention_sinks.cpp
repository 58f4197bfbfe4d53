// Sinks of attention on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_sinks.hpp"

#include <cmath>

#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/math/sinks.hpp"

namespace trireme::kernels::host {

void add_sinks(Stream& /*stream*/, const TensorView& sinks_H, const TensorView& o_THK,
               const TensorView& lse_TH) {
  const std::int64_t H = sinks_H.elements(), K = o_THK.dim(1) / H;
  visit_floating(o_THK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const T* const sinks = sinks_H.data<T>();
    const auto o = rows_of<T>(o_THK);
    const auto lse = rows_of<A>(lse_TH);
    for_rows("add_sinks", o_THK.dim(0), H * K, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        for (std::int64_t h = 0; h < H; ++h) {
          const A with = math::log_of_sum(lse[t][h], static_cast<A>(load(sinks[h])));
          const A share = std::exp(lse[t][h] - with);
          T* row = o[t] + h * K;
#pragma omp simd
          for (std::int64_t k = 0; k < K; ++k) row[k] = store<T>(share * load(row[k]));
          lse[t][h] = with;
        }
    });
  });
}

void sink_gradients(Stream& /*stream*/, const TensorView& sinks_H,
                    const TensorView& do_THK, const TensorView& o_THK,
                    const TensorView& lse_TH, const TensorView& terms_TH) {
  const std::int64_t H = sinks_H.elements(), K = o_THK.dim(1) / H;
  visit_floating(o_THK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const T* const sinks = sinks_H.data<T>();
    const auto d_o = rows_of<const T>(do_THK), o = rows_of<const T>(o_THK);
    const auto lse = rows_of<const A>(lse_TH);
    const auto terms = rows_of<A>(terms_TH);
    for_rows("sink_gradients", o_THK.dim(0), H * K,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t t = begin; t < end; ++t)
                 for (std::int64_t h = 0; h < H; ++h) {
                   const T *left = d_o[t] + h * K, *right = o[t] + h * K;
                   A sum = 0;
#pragma omp simd reduction(+ : sum)
                   for (std::int64_t k = 0; k < K; ++k)
                     sum += load(left[k]) * load(right[k]);
                   const A share = std::exp(static_cast<A>(load(sinks[h])) - lse[t][h]);
                   terms[t][h] = -share * sum;
                 }
             });
  });
}

}  // namespace trireme::kernels::host
