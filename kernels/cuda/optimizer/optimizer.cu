// AdamW and SGD on a GPU: one pass over memory. T the type of the arithmetic and of all
// state, W that of the rounded weights.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/cuts.cuh"
#include "kernels/cuda/optimizer/optimizer.hpp"
#include "kernels/optimizer_factors.hpp"

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

__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }

template <class T>
__device__ inline void adamw_element(const AdamWFactors<T>& f, T gradient, T& w, T& m,
                                     T& v) {
  const T g = gradient * f.gradient_scale;
  m = f.beta1 * m + f.new1 * g;
  v = f.beta2 * v + f.new2 * (g * g);
  w = f.keep * w - f.step_size * m / (root(v) * f.denominator_scale + f.eps);
}

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

template <class T, class W>
__global__ void __launch_bounds__(threads)
    adamw_kernel(AdamWFactors<T> f, Extent extent, T* __restrict__ master,
                 T* __restrict__ gradient, T* __restrict__ moment1,
                 T* __restrict__ moment2, W* __restrict__ weight) {
  constexpr int pack = pack_elements<T>;
  const std::int64_t start = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t p = start; p < extent.cut.groups; p += stride) {
    const std::int64_t at = extent.cut.head + p * pack;
    const auto g = load_pack(gradient + at);
    auto w = load_pack(master + at), m = load_pack(moment1 + at),
         v = load_pack(moment2 + at);
#pragma unroll
    for (int i = 0; i < pack; ++i) adamw_element(f, g.x[i], w.x[i], m.x[i], v.x[i]);
    store_pack(master + at, w);
    store_pack(moment1 + at, m);
    store_pack(moment2 + at, v);
    store_pack(gradient + at, zero_pack<T>());
    store_rounded(w, weight, at);
  }
  for (std::int64_t s = start; s < extent.singles(pack); s += stride) {
    const std::int64_t at = extent.single(s, pack);
    adamw_element(f, gradient[at], master[at], moment1[at], moment2[at]);
    gradient[at] = T(0);
    if (weight != nullptr) weight[at] = narrow<W>(master[at]);
  }
}

template <class T>
__device__ inline void sgd_element(const SgdFactors<T>& f, T gradient, T& w, T& buffer) {
  buffer = f.momentum * buffer + f.gradient_scale * gradient;
  w = f.keep * w - f.rate * buffer;
}

// Without a buffer the momentum is 0.
template <class T, class W>
__global__ void __launch_bounds__(threads)
    sgd_kernel(SgdFactors<T> f, Extent extent, T* __restrict__ master,
               T* __restrict__ gradient, T* __restrict__ buffer, W* __restrict__ weight) {
  constexpr int pack = pack_elements<T>;
  const std::int64_t start = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t p = start; p < extent.cut.groups; p += stride) {
    const std::int64_t at = extent.cut.head + p * pack;
    const auto g = load_pack(gradient + at);
    auto w = load_pack(master + at);
    auto b = buffer != nullptr ? load_pack(buffer + at) : zero_pack<T>();
#pragma unroll
    for (int i = 0; i < pack; ++i) sgd_element(f, g.x[i], w.x[i], b.x[i]);
    store_pack(master + at, w);
    if (buffer != nullptr) store_pack(buffer + at, b);
    store_pack(gradient + at, zero_pack<T>());
    store_rounded(w, weight, at);
  }
  for (std::int64_t s = start; s < extent.singles(pack); s += stride) {
    const std::int64_t at = extent.single(s, pack);
    T none = 0;
    sgd_element(f, gradient[at], master[at], buffer != nullptr ? buffer[at] : none);
    gradient[at] = T(0);
    if (weight != nullptr) weight[at] = narrow<W>(master[at]);
  }
}

template <class T, class... Others>
Extent extent_of(const TensorView& master, const Others*... others) {
  const std::int64_t n = master.elements();
  return {n, cut_run<pack_elements<T>>(n, elements_of<T>(master), others...)};
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

void adamw(Stream& stream, const AdamW& rule, const TensorView& master,
           const TensorView& gradient, const TensorView& moment1,
           const TensorView& moment2, const TensorView& weight) {
  if (master.elements() == 0) return;
  visit_master(master, [&](auto element) {
    using T = decltype(element);
    visit_rounded(weight, [&]<class W>(W* rounded) {
      T *const g = gradient.data<T>(), *const m = moment1.data<T>(),
               *const v = moment2.data<T>();
      const Extent extent = extent_of<T>(master, g, m, v, rounded);
      launch(stream, grid_for(stream, extent, pack_elements<T>), adamw_kernel<T, W>,
             AdamWFactors<T>(rule), extent, master.data<T>(), g, m, v, rounded);
    });
  });
}

void sgd(Stream& stream, const Sgd& rule, const TensorView& master,
         const TensorView& gradient, const TensorView& buffer, const TensorView& weight) {
  if (master.elements() == 0) return;
  visit_master(master, [&](auto element) {
    using T = decltype(element);
    visit_rounded(weight, [&]<class W>(W* rounded) {
      T* const g = gradient.data<T>();
      T* const b = buffer.empty() ? nullptr : buffer.data<T>();
      const Extent extent =
          b ? extent_of<T>(master, g, b, rounded) : extent_of<T>(master, g, rounded);
      launch(stream, grid_for(stream, extent, pack_elements<T>), sgd_kernel<T, W>,
             SgdFactors<T>(rule), extent, master.data<T>(), g, b, rounded);
    });
  });
}

}  // namespace trireme::kernels::cuda
