// The sweep that optimizer updates share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/tensor_view.hpp"
#include "kernels/kokkos/parallel.hpp"
#include "kernels/runtime.hpp"

namespace trireme::kernels {

// Elements that stay in the first-level cache between the steps of an update. Blocks
// start at the same elements whatever the number of threads, so that each element goes
// through the same (vector or remainder) code and gets the same bits.
inline constexpr std::int64_t sweep_block = 1024;

// Calls update(begin, end) block by block over [0, n), by all threads.
template <class F>
void sweep(const char* label, std::int64_t n, const F& update) {
  for_ranges(label, divide_up(n, sweep_block), 16, threads(), [&](auto begin, auto end) {
    for (auto block = begin; block < end; ++block)
      update(block * sweep_block, std::min(n, (block + 1) * sweep_block));
  });
}

// Calls f(T*) with the elements of `weight`: nullptr of float when there is none.
template <class F>
void visit_weight(const TensorView& weight, const F& f) {
  if (weight.empty()) return f(static_cast<float*>(nullptr));
  visit_floating(weight.dtype(),
                 [&](auto element) { f(weight.data<decltype(element)>()); });
}

// weight = master, rounded, for elements [begin, end).
template <class T, class W>
void round_weights(const T* __restrict master, W* __restrict weight, std::int64_t begin,
                   std::int64_t end) {
  if (weight == nullptr) return;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    if constexpr (std::is_floating_point_v<W>) {
      weight[i] = static_cast<W>(master[i]);
    } else {
      weight[i] = static_cast<W>(static_cast<float>(master[i]));
    }
  }
}

}  // namespace trireme::kernels
