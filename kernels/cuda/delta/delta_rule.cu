// The gated delta rule on a GPU: a block does a key head of a sequence.
// SPDX-License-Identifier: Apache-2.0
// It follows the formulas of kernels/math/delta_rule.hpp in the memory of the GPU,
// without tensor cores: right, and far from what a GPU can do.
#include <cmath>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/math.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/delta_rule.hpp"
#include "kernels/math/delta_heads.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int team_threads = 256;

// The threads of a block as the team of kernels/math/delta_rule.hpp.
struct DeltaTeam {
  template <class A>
  __device__ static A exp_of_nonpositive(A x) {
    return std::exp(x);
  }
  template <class T>
  __device__ static Wide<T> load(T x) {
    return widen(x);
  }
  template <class T>
  __device__ static T store(Wide<T> x) {
    return narrow<T>(x);
  }

  template <class F>
  __device__ void each(std::int64_t n, const F& f) const {
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
    __syncthreads();
  }
  template <class F>
  __device__ void each(std::int64_t m, std::int64_t n, const F& f) const {
    for (std::int64_t i = threadIdx.x; i < m * n; i += blockDim.x) f(i / n, i % n);
    __syncthreads();
  }

  template <class A>
  __device__ void product(const math::DeltaProduct<A>& of) const {
    each(of.m, of.n, [&](std::int64_t m, std::int64_t n) {
      A sum = 0;
      for (std::int64_t p = 0; p < of.p; ++p)
        sum += of.a[m * of.a_m + p * of.a_p] * of.b[p * of.b_p + n * of.b_n];
      A* const out = of.out + m * of.out_m + n;
      const A scaled = (of.scale == nullptr ? of.factor : of.factor * of.scale[m]) * sum;
      *out = of.add ? *out + scaled : scaled;
    });
  }

  // A thread has a column.
  template <class A>
  __device__ void solve(const A* low, std::int64_t rows, A* u, std::int64_t V) const {
    each(V, [&](std::int64_t v) {
      for (std::int64_t i = 1; i < rows; ++i)
        for (std::int64_t j = 0; j < i; ++j)
          u[i * V + v] -= low[i * delta_chunk_rows + j] * u[j * V + v];
    });
  }
  template <class A>
  __device__ void solve_transposed(const A* low, std::int64_t rows, A* u,
                                   std::int64_t V) const {
    each(V, [&](std::int64_t v) {
      for (std::int64_t i = rows; i-- > 1;)
        for (std::int64_t j = 0; j < i; ++j)
          u[j * V + v] -= low[i * delta_chunk_rows + j] * u[i * V + v];
    });
  }
};

template <class T>
struct Work {
  using A = Wide<T>;
  math::DeltaHeads<T, A> all;
  math::DeltaSizes sizes;
  std::int64_t heads, each;
  A* memory;
  bool backward;
};

template <class T>
__global__ void __launch_bounds__(team_threads, 1) do_heads(Work<T> work) {
  const std::int64_t at = blockIdx.x;
  const auto head = work.all.head(at / work.heads, at % work.heads);
  const DeltaTeam team;
  if (work.backward) {
    math::delta_backward(team, work.sizes, head, work.memory + at * work.each);
  } else {
    math::delta_forward(team, work.sizes, head, work.memory + at * work.each);
  }
}

template <class H>
void start(Stream& stream, const DeltaShape& shape,
           const math::DeltaHeads<DeviceType<H>, Accumulator<H>>& all, bool backward) {
  using A = Accumulator<H>;
  const std::int64_t K = shape.key_width, V = shape.value_width,
                     blocks = shape.batch * shape.key_heads,
                     R = shape.value_heads / shape.key_heads;
  if (blocks == 0 || shape.sequence == 0) return;
  const std::int64_t each = backward ? math::delta_backward_elements(K, V, R)
                                     : math::delta_forward_elements(K, V);
  const TensorView memory = workspace(stream, dtype_of<A>, {blocks, each});
  const Work<DeviceType<H>> work{all,  math::delta_sizes(shape), shape.key_heads,
                                 each, memory.data<A>(),         backward};
  launch(stream, Grid{{extent(blocks)}, {team_threads}}, do_heads<DeviceType<H>>, work);
}

template <class T>
struct Gates {
  using A = Wide<T>;
  Rows<T> a, b;
  const T *decay, *bias;
  Rows<A> g, beta;
  Rows<T> da, db;

  template <int W>
  __device__ void at(std::int64_t t, std::int64_t h) const {
    using M = DeviceMath<A>;
    const A x = widen(a[t][h]) + widen(bias[h]);
    if (da.data == nullptr) {
      g[t][h] = -std::exp(widen(decay[h])) * math::softplus<M>(x);
      beta[t][h] = math::logistic<M>(widen(b[t][h])).value;
      return;
    }
    const auto d = math::delta_gate_gradients<M>(x, widen(b[t][h]), widen(decay[h]),
                                                 g[t][h], beta[t][h]);
    da[t][h] = narrow<T>(d.a);
    db[t][h] = narrow<T>(d.b);
    g[t][h] = d.decay;
    beta[t][h] = d.a;
  }
};

template <class H>
void start_gates(Stream& stream, const TensorView& a_TG, const TensorView& b_TG,
                 const TensorView& decay_G, const TensorView& bias_G,
                 const TensorView& g_TG, const TensorView& beta_TG,
                 const TensorView& da_TG, const TensorView& db_TG) {
  using A = Accumulator<H>;
  const Gates<DeviceType<H>> f{rows_of<H>(a_TG),        rows_of<H>(b_TG),
                               elements_of<H>(decay_G), elements_of<H>(bias_G),
                               rows_of<A>(g_TG),        rows_of<A>(beta_TG),
                               rows_of<H>(da_TG),       rows_of<H>(db_TG)};
  launch_over_rows<1>(stream, {a_TG.dim(0), a_TG.dim(1)}, false, f);
}

}  // namespace

void delta_rule(Stream& stream, const TensorView& /*memory*/, const DeltaShape& shape,
                const DeltaInputs& in, const TensorView& o_TGV, const TensorView& states,
                const TensorView& state) {
  visit_floating(in.q_THK.dtype(), [&]<class H>(H) {
    start<H>(stream, shape,
             math::delta_heads<H, DeviceType<H>>(shape, in, o_TGV, states, state), false);
  });
}

void delta_rule_backward(Stream& stream, const TensorView& /*memory*/,
                         const DeltaShape& shape, const TensorView& do_TGV,
                         const DeltaInputs& in, const TensorView& states,
                         const DeltaInputs& d) {
  visit_floating(in.q_THK.dtype(), [&]<class H>(H) {
    start<H>(stream, shape,
             math::delta_heads<H, DeviceType<H>>(shape, in, do_TGV, states, {}, d), true);
  });
}

void delta_gates(Stream& stream, const TensorView& a_TG, const TensorView& b_TG,
                 const TensorView& decay_G, const TensorView& bias_G,
                 const TensorView& g_TG, const TensorView& beta_TG) {
  visit_floating(a_TG.dtype(), [&]<class H>(H) {
    start_gates<H>(stream, a_TG, b_TG, decay_G, bias_G, g_TG, beta_TG, {}, {});
  });
}

void delta_gates_backward(Stream& stream, const TensorView& a_TG, const TensorView& b_TG,
                          const TensorView& decay_G, const TensorView& bias_G,
                          const TensorView& dg_TG, const TensorView& dbeta_TG,
                          const TensorView& da_TG, const TensorView& db_TG) {
  visit_floating(a_TG.dtype(), [&]<class H>(H) {
    start_gates<H>(stream, a_TG, b_TG, decay_G, bias_G, dg_TG, dbeta_TG, da_TG, db_TG);
  });
}

}  // namespace trireme::kernels::cuda
