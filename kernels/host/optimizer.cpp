// AdamW and SGD on the host: one pass over memory, all threads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/host/parallel.hpp"
#include "kernels/optimizer_factors.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels::host {
namespace {

// Elements that stay in the first-level cache between the steps of an update. Blocks
// start at the same elements whatever the number of threads, so that each element goes
// through the same (vector or remainder) code and gets the same bits.
constexpr std::int64_t sweep_block = 1024;

// Calls update(begin, end) block by block over [0, n), by all threads.
template <class F>
void sweep(const char* label, std::int64_t n, const F& update) {
  for_ranges(label, divide_up(n, sweep_block), 16, threads(), [&](auto begin, auto end) {
    for (auto block = begin; block < end; ++block)
      update(block * sweep_block, std::min(n, (block + 1) * sweep_block));
  });
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

template <class T>
void adamw_block(const AdamWFactors<T>& f, T* __restrict master, T* __restrict gradient,
                 T* __restrict moment1, T* __restrict moment2, std::int64_t begin,
                 std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const T g = gradient[i] * f.gradient_scale;
    const T m = f.beta1 * moment1[i] + f.new1 * g;
    const T v = f.beta2 * moment2[i] + f.new2 * (g * g);
    moment1[i] = m;
    moment2[i] = v;
    master[i] = f.keep * master[i] -
                f.step_size * m / (std::sqrt(v) * f.denominator_scale + f.eps);
    gradient[i] = 0;
  }
}

template <class T>
void sgd_block(const SgdFactors<T>& f, T* __restrict master, T* __restrict gradient,
               T* __restrict buffer, std::int64_t begin, std::int64_t end) {
  if (buffer == nullptr) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      master[i] = f.keep * master[i] - f.rate * (f.gradient_scale * gradient[i]);
      gradient[i] = 0;
    }
    return;
  }
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const T velocity = f.momentum * buffer[i] + f.gradient_scale * gradient[i];
    buffer[i] = velocity;
    master[i] = f.keep * master[i] - f.rate * velocity;
    gradient[i] = 0;
  }
}

}  // namespace

void adamw(const AdamW& rule, const TensorView& master, const TensorView& gradient,
           const TensorView& moment1, const TensorView& moment2,
           const TensorView& weight) {
  visit_master(master, [&](auto element) {
    using T = decltype(element);
    const AdamWFactors<T> factors(rule);
    T* w = master.data<T>();
    T* g = gradient.data<T>();
    T* m = moment1.data<T>();
    T* v = moment2.data<T>();
    visit_weight(weight, [&](auto* rounded) {
      sweep("adamw", master.elements(), [&](std::int64_t begin, std::int64_t end) {
        adamw_block(factors, w, g, m, v, begin, end);
        round_weights(w, rounded, begin, end);
      });
    });
  });
}

void sgd(const Sgd& rule, const TensorView& master, const TensorView& gradient,
         const TensorView& buffer, const TensorView& weight) {
  visit_master(master, [&](auto element) {
    using T = decltype(element);
    const SgdFactors<T> factors(rule);
    T* w = master.data<T>();
    T* g = gradient.data<T>();
    T* velocity = buffer.empty() ? nullptr : buffer.data<T>();
    visit_weight(weight, [&](auto* rounded) {
      sweep("sgd", master.elements(), [&](std::int64_t begin, std::int64_t end) {
        sgd_block(factors, w, g, velocity, begin, end);
        round_weights(w, rounded, begin, end);
      });
    });
  });
}

}  // namespace trireme::kernels::host
