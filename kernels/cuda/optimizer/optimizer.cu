// Optimizer updates on a GPU: one pass over memory.
// SPDX-License-Identifier: Apache-2.0
// T is the type of the arithmetic and of all state, W that of the rounded weights.
#include "kernels/cuda/common/cuts.cuh"
#include "kernels/optimizer.hpp"
#include "kernels/optimizer_types.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr unsigned threads = 256;

// Flat buffers of n elements, and how they are cut into packs and single elements.
struct Extent {
  std::int64_t n = 0;
  Cut cut;

  __host__ __device__ std::int64_t singles(int pack) const {
    return n - cut.groups * pack;
  }
  // Element of single element s: those before the packs, then those behind.
  __device__ std::int64_t single(std::int64_t s, int pack) const {
    return s < cut.head ? s : s + cut.groups * pack;
  }
};

template <class T>
__device__ inline Pack<T> zero_pack() {
  Pack<T> zeros;
#pragma unroll
  for (int i = 0; i < pack_elements<T>; ++i) zeros.x[i] = T(0);
  return zeros;
}

// The rounded copy of a pack of master weights, where one is wanted.
template <class T, class W>
__device__ inline void store_rounded(const Pack<T>& master, W* weight, std::int64_t at) {
  if (weight == nullptr) return;
  Group<W, pack_elements<T>> rounded;
#pragma unroll
  for (int i = 0; i < pack_elements<T>; ++i) rounded.x[i] = narrow<W>(master.x[i]);
  store_group(weight + at, rounded);
}

// States that the formula does not have are nullptr.
template <class Formula, class T, class W>
__global__ void __launch_bounds__(threads)
    update_kernel(Formula formula, Extent extent, T* __restrict__ master,
                  T* __restrict__ gradient, T* __restrict__ state0,
                  T* __restrict__ state1, W* __restrict__ weight) {
  constexpr int pack = pack_elements<T>;
  const std::int64_t start = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t p = start; p < extent.cut.groups; p += stride) {
    const std::int64_t at = extent.cut.head + p * pack;
    const auto g = load_pack(gradient + at);
    auto w = load_pack(master + at);
    Pack<T> s0 = zero_pack<T>(), s1 = zero_pack<T>();
    if constexpr (Formula::states > 0) s0 = load_pack(state0 + at);
    if constexpr (Formula::states > 1) s1 = load_pack(state1 + at);
#pragma unroll
    for (int i = 0; i < pack; ++i) formula(g.x[i], w.x[i], s0.x[i], s1.x[i]);
    store_pack(master + at, w);
    if constexpr (Formula::states > 0) store_pack(state0 + at, s0);
    if constexpr (Formula::states > 1) store_pack(state1 + at, s1);
    store_pack(gradient + at, zero_pack<T>());
    store_rounded(w, weight, at);
  }
  for (std::int64_t s = start; s < extent.singles(pack); s += stride) {
    const std::int64_t at = extent.single(s, pack);
    T none = 0;
    formula(gradient[at], master[at], Formula::states > 0 ? state0[at] : none,
            Formula::states > 1 ? state1[at] : none);
    gradient[at] = T(0);
    if (weight != nullptr) weight[at] = narrow<W>(master[at]);
  }
}

// States that the formula does not have lie where the master weights do.
template <class T, class W>
Extent extent_of(const TensorView& master, const T* gradient, const T* state0,
                 const T* state1, const W* rounded) {
  const std::int64_t n = master.elements();
  const T* const w = elements_of<T>(master);
  return {n, cut_run<pack_elements<T>>(n, w, gradient, state0 ? state0 : w,
                                       state1 ? state1 : w, rounded)};
}

Grid grid_for(const Stream& stream, const Extent& extent, int pack) {
  const std::int64_t work = std::max(extent.cut.groups, extent.singles(pack));
  return {dim3(striding_blocks(stream, work, threads)), dim3(threads)};
}

// Calls f(W{}) with the device's type of the weights: float when there are none.
template <class F>
void visit_rounded(const TensorView& weight, const F& f) {
  visit_weight(weight, [&](auto* host) {
    using W = DeviceType<std::remove_pointer_t<decltype(host)>>;
    f(reinterpret_cast<W*>(host));
  });
}

}  // namespace

void update(Stream& stream, const Update& update, const TensorView& master,
            const TensorView& gradient, const UpdateStates& states,
            const TensorView& weight) {
  if (master.elements() == 0) return;
  visit_master(master, [&](auto element) {
    using T = decltype(element);
    T *const w = master.data<T>(), *const g = gradient.data<T>();
    T *const s0 = state_elements<T>(states[0]), *const s1 = state_elements<T>(states[1]);
    visit_rounded(weight, [&]<class W>(W* rounded) {
      const Extent extent = extent_of(master, g, s0, s1, rounded);
      visit_formula<T>(update, [&]<class Formula>(const Formula& formula) {
        launch(stream, grid_for(stream, extent, pack_elements<T>),
               update_kernel<Formula, T, W>, formula, extent, w, g, s0, s1, rounded);
      });
    });
  });
}

}  // namespace trireme::kernels::cuda
