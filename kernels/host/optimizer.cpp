// Optimizer updates on the host: one pass over memory, all threads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/host/parallel.hpp"
#include "kernels/optimizer_types.hpp"
#include "kernels/runtime/runtime.hpp"
#include "kernels/step_decision.hpp"

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

// Elements [begin, end). States that the formula does not have are nullptr.
template <class Formula, class T>
void update_block(const Formula& formula, T* __restrict master, T* __restrict gradient,
                  T* __restrict state0, T* __restrict state1, std::int64_t begin,
                  std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    T w = master[i], s0 = 0, s1 = 0;
    if constexpr (Formula::states > 0) s0 = state0[i];
    if constexpr (Formula::states > 1) s1 = state1[i];
    formula(gradient[i], w, s0, s1);
    master[i] = w;
    if constexpr (Formula::states > 0) state0[i] = s0;
    if constexpr (Formula::states > 1) state1[i] = s1;
    gradient[i] = 0;
  }
}

}  // namespace

void update(Stream& /*stream*/, const Update& update, const TensorView& master,
            const TensorView& gradient, const UpdateStates& states,
            const TensorView& weight) {
  visit_master(master, [&](auto element) {
    using T = decltype(element);
    T *const w = master.data<T>(), *const g = gradient.data<T>();
    T *const s0 = state_elements<T>(states[0]), *const s1 = state_elements<T>(states[1]);
    visit_formula<T>(update, [&](const auto& formula) {
      visit_weight(weight, [&](auto* rounded) {
        sweep("update", master.elements(), [&](std::int64_t begin, std::int64_t end) {
          update_block(formula, w, g, s0, s1, begin, end);
          round_weights(w, rounded, begin, end);
        });
      });
    });
  });
}

void update_all(Stream& stream, std::span<const Update> updates,
                std::span<const UpdateTensors> tensors, const TensorView& decision) {
  const double* const decided = decision.empty() ? nullptr : decision.data<double>();
  if (decided != nullptr && decided[decided_sound] == 0) return;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const UpdateTensors& x = tensors[i];
    Update step = updates[i];
    if (decided != nullptr) step.gradient_scale = decided[decided_scale];
    host::update(stream, step, x.master, x.gradient, x.states, x.weight);
  }
}

}  // namespace trireme::kernels::host
