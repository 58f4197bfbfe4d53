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

constexpr std::int64_t least_blocks = 16;  // that are worth another thread

// A thread's share of the update of a tensor.
struct Share {
  std::int64_t index = 0, of = 1;
};

std::int64_t shares_of(const UpdateTensors& tensors) {
  const std::int64_t blocks = divide_up(tensors.master.elements(), sweep_block);
  return std::clamp<std::int64_t>(blocks / least_blocks, 1, threads());
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
void update_block(const Formula& formula, T* __restrict master,
                  const T* __restrict gradient, T* __restrict state0,
                  T* __restrict state1, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    T w = master[i], s0 = 0, s1 = 0;
    if constexpr (Formula::states > 0) s0 = state0[i];
    if constexpr (Formula::states > 1) s1 = state1[i];
    formula(gradient[i], w, s0, s1);
    master[i] = w;
    if constexpr (Formula::states > 0) state0[i] = s0;
    if constexpr (Formula::states > 1) state1[i] = s1;
  }
}

// The same thread has the same elements in each step, and so does the memory near it.
void update_share(const Update& update, const UpdateTensors& tensors,
                  const Share& share) {
  const std::int64_t n = tensors.master.elements();
  const Range blocks = split_range(divide_up(n, sweep_block), share.of, share.index);
  visit_master(tensors.master, [&](auto element) {
    using T = decltype(element);
    T* const w = tensors.master.data<T>();
    const T* const g = tensors.gradient.data<T>();
    T* const s0 = state_elements<T>(tensors.states[0]);
    T* const s1 = state_elements<T>(tensors.states[1]);
    visit_formula<T>(update, [&](const auto& formula) {
      visit_weight(tensors.weight, [&](auto* rounded) {
        for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
          const std::int64_t begin = block * sweep_block;
          const std::int64_t end = std::min(n, begin + sweep_block);
          update_block(formula, w, g, s0, s1, begin, end);
          round_weights(w, rounded, begin, end);
        }
      });
    });
  });
}

}  // namespace

// Threads meet once for all tensors, of each of which all have a share.
void update_all(Stream& /*stream*/, std::span<const Update> updates,
                std::span<const UpdateTensors> tensors, const TensorView& decision) {
  const double* const decided = decision.empty() ? nullptr : decision.data<double>();
  if (decided != nullptr && decided[decided_sound] == 0) return;
  std::int64_t shares = 0;
  for (const UpdateTensors& x : tensors) shares = std::max(shares, shares_of(x));
  run_chunks("update", shares, ChunkBody([&](std::int64_t share) {
               for (std::size_t i = 0; i < tensors.size(); ++i) {
                 Update step = updates[i];
                 if (decided != nullptr) step.gradient_scale = decided[decided_scale];
                 const std::int64_t of = shares_of(tensors[i]);
                 if (share < of) update_share(step, tensors[i], {share, of});
               }
             }));
}

void update(Stream& stream, const Update& update, const TensorView& master,
            const TensorView& gradient, const UpdateStates& states,
            const TensorView& weight) {
  const UpdateTensors tensors{master, gradient, states, weight};
  host::update_all(stream, {&update, 1}, {&tensors, 1}, {});
}

}  // namespace trireme::kernels::host
