// Optimizer updates on a GPU: one pass over memory.
// SPDX-License-Identifier: Apache-2.0
// T is the type of the arithmetic and of all state, W that of the rounded weights.
#include <cstring>

#include "kernels/cuda/common/cuts.cuh"
#include "kernels/optimizer.hpp"
#include "kernels/optimizer_types.hpp"
#include "kernels/step_decision.hpp"

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

// One tensor of a sweep. States that the formula does not have are nullptr.
template <class Formula, class T, class W>
struct Piece {
  Formula formula;
  Extent extent;
  T* master;
  const T* gradient;
  T *state0, *state1;
  W* weight;
  std::int64_t first_block;  // of the launch
};

// Pieces travel as an argument of the kernel, whose arguments are at most 4096 bytes.
template <class Piece>
struct Pieces {
  static constexpr int most = 3840 / static_cast<int>(sizeof(Piece));
  alignas(Piece) unsigned char bytes[most * sizeof(Piece)] = {};
  int count = 0;

  __device__ const Piece& at(int i) const {
    return reinterpret_cast<const Piece*>(bytes)[i];
  }
  // The last one that begins at the block or before.
  __device__ const Piece& of_block(std::int64_t block) const {
    int i = 0;
    while (i + 1 < count && at(i + 1).first_block <= block) ++i;
    return at(i);
  }
  void add(const Piece& piece) {
    std::memcpy(bytes + count++ * sizeof(Piece), &piece, sizeof(Piece));
  }
};

// Packs that a block does, and single elements.
constexpr std::int64_t block_packs = std::int64_t{8} * threads;

template <class Formula, class T, class W>
__device__ inline void update_pack(const Piece<Formula, T, W>& of, std::int64_t at) {
  constexpr int pack = pack_elements<T>;
  const auto g = load_pack(of.gradient + at);
  auto w = load_pack(of.master + at);
  Pack<T> s0 = zero_pack<T>(), s1 = zero_pack<T>();
  if constexpr (Formula::states > 0) s0 = load_pack(of.state0 + at);
  if constexpr (Formula::states > 1) s1 = load_pack(of.state1 + at);
#pragma unroll
  for (int i = 0; i < pack; ++i) of.formula(g.x[i], w.x[i], s0.x[i], s1.x[i]);
  store_pack(of.master + at, w);
  if constexpr (Formula::states > 0) store_pack(of.state0 + at, s0);
  if constexpr (Formula::states > 1) store_pack(of.state1 + at, s1);
  store_rounded(w, of.weight, at);
}

// A block has the same elements of a piece whatever the GPU: those of `block_packs` packs
// and as many single ones. decision: see update_all(), or null.
template <class Formula, class T, class W>
__global__ void __launch_bounds__(threads)
    update_kernel(const __grid_constant__ Pieces<Piece<Formula, T, W>> table,
                  const double* decision) {
  constexpr int pack = pack_elements<T>;
  Piece<Formula, T, W> of = table.of_block(blockIdx.x);
  if (decision != nullptr) {
    if (decision[decided_sound] == 0) return;
    of.formula.gradient_scale = static_cast<T>(decision[decided_scale]);
  }
  const std::int64_t begin = (std::int64_t{blockIdx.x} - of.first_block) * block_packs;
  const std::int64_t end = begin + block_packs;
  const std::int64_t packs = min(end, of.extent.cut.groups);
  const std::int64_t singles = min(end, of.extent.singles(pack));
  for (std::int64_t p = begin + threadIdx.x; p < packs; p += threads)
    update_pack(of, of.extent.cut.head + p * pack);
  for (std::int64_t s = begin + threadIdx.x; s < singles; s += threads) {
    const std::int64_t at = of.extent.single(s, pack);
    T none = 0;
    of.formula(of.gradient[at], of.master[at], Formula::states > 0 ? of.state0[at] : none,
               Formula::states > 1 ? of.state1[at] : none);
    if (of.weight != nullptr) of.weight[at] = narrow<W>(of.master[at]);
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

// Calls f(W{}) with the device's type of the weights: float when there are none.
template <class F>
void visit_rounded(const TensorView& weight, const F& f) {
  visit_weight(weight, [&](auto* host) {
    using W = DeviceType<std::remove_pointer_t<decltype(host)>>;
    f(reinterpret_cast<W*>(host));
  });
}

template <class Formula, class T, class W>
Piece<Formula, T, W> piece_of(const Formula& formula, const UpdateTensors& x, W* weight) {
  T* const w = x.master.data<T>();
  const T* const g = x.gradient.data<T>();
  T* const s0 = state_elements<T>(x.states[0]);
  T* const s1 = state_elements<T>(x.states[1]);
  return {formula, extent_of(x.master, g, s0, s1, weight), w, g, s0, s1, weight, 0};
}

// As many launches as tables are needed.
template <class Formula, class T, class W>
class Sweep {
 public:
  Sweep(Stream& stream, const double* decision) : stream_(stream), decision_(decision) {}

  void add(Piece<Formula, T, W> piece) {
    constexpr int pack = pack_elements<T>;
    if (table_.count == table_.most) run();
    const std::int64_t work =
        std::max(piece.extent.cut.groups, piece.extent.singles(pack));
    piece.first_block = blocks_;
    blocks_ += divide_up(work, block_packs);
    table_.add(piece);
  }
  void run() {
    if (table_.count == 0) return;
    launch(stream_, Grid{dim3(extent(blocks_)), dim3(threads)},
           update_kernel<Formula, T, W>, table_, decision_);
    table_.count = 0;
    blocks_ = 0;
  }

 private:
  Stream& stream_;
  const double* decision_;
  Pieces<Piece<Formula, T, W>> table_;
  std::int64_t blocks_ = 0;
};

}  // namespace

void update_all(Stream& stream, std::span<const Update> updates,
                std::span<const UpdateTensors> tensors, const TensorView& decision) {
  if (tensors.empty()) return;
  const double* const decided = decision.empty() ? nullptr : decision.data<double>();
  visit_master(tensors[0].master, [&](auto element) {
    using T = decltype(element);
    visit_rounded(tensors[0].weight, [&]<class W>(W*) {
      visit_formula<T>(updates[0], [&]<class Formula>(const Formula&) {
        Sweep<Formula, T, W> sweep(stream, decided);
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          if (tensors[i].master.elements() == 0) continue;
          visit_rounded(tensors[i].weight, [&]<class Rounded>(Rounded* weight) {
            if constexpr (std::is_same_v<Rounded, W>)
              sweep.add(piece_of<Formula, T, W>(Formula(updates[i]), tensors[i], weight));
            else
              fail(Status::internal, "the weights of one update have several types");
          });
        }
        sweep.run();
      });
    });
  });
}

void update(Stream& stream, const Update& update, const TensorView& master,
            const TensorView& gradient, const UpdateStates& states,
            const TensorView& weight) {
  const UpdateTensors tensors{master, gradient, states, weight};
  cuda::update_all(stream, {&update, 1}, {&tensors, 1}, {});
}

}  // namespace trireme::kernels::cuda
