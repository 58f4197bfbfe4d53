// The gated delta rule on the host: a thread does a key head of a sequence.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/delta_rule.hpp"

#include <cmath>

#include "kernels/host/delta_team.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/math/delta_heads.hpp"

namespace trireme::kernels::host {
namespace {

// f(sequence, key head, this task's part of `memory`) for all of them.
template <class A, class F>
void for_heads(const char* label, const DeltaShape& shape, const TensorView& memory,
               const F& f) {
  const std::int64_t heads = shape.batch * shape.key_heads, tasks = memory.dim(0);
  run_chunks(label, tasks, ChunkBody([&](std::int64_t task) {
               const Range mine = split_range(heads, tasks, task);
               A* const space = memory.data<A>() + task * memory.dim(1);
               for (std::int64_t i = mine.begin; i < mine.end; ++i)
                 f(i / shape.key_heads, i % shape.key_heads, space);
             }));
}

}  // namespace

void delta_rule(Stream& /*stream*/, const TensorView& memory, const DeltaShape& shape,
                const DeltaInputs& in, const TensorView& o_TGV, const TensorView& states,
                const TensorView& state) {
  const math::DeltaSizes sizes = math::delta_sizes(shape);
  visit_floating(in.q_THK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto all = math::delta_heads<T, T>(shape, in, o_TGV, states, state);
    for_heads<A>("delta_rule", shape, memory,
                 [&](std::int64_t b, std::int64_t h, A* space) {
                   const DeltaTeam team;
                   math::delta_forward(team, sizes, all.head(b, h), space);
                 });
  });
}

void delta_rule_backward(Stream& /*stream*/, const TensorView& memory,
                         const DeltaShape& shape, const TensorView& do_TGV,
                         const DeltaInputs& in, const TensorView& states,
                         const DeltaInputs& d) {
  const math::DeltaSizes sizes = math::delta_sizes(shape);
  visit_floating(in.q_THK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto all = math::delta_heads<T, T>(shape, in, do_TGV, states, {}, d);
    for_heads<A>("delta_rule_backward", shape, memory,
                 [&](std::int64_t b, std::int64_t h, A* space) {
                   const DeltaTeam team;
                   math::delta_backward(team, sizes, all.head(b, h), space);
                 });
  });
}

void delta_gates(Stream& /*stream*/, const TensorView& a_TG, const TensorView& b_TG,
                 const TensorView& decay_G, const TensorView& bias_G,
                 const TensorView& g_TG, const TensorView& beta_TG) {
  const std::int64_t G = a_TG.dim(1);
  visit_floating(a_TG.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto a = rows_of<const T>(a_TG), b = rows_of<const T>(b_TG);
    const T *decay = decay_G.data<T>(), *bias = bias_G.data<T>();
    const auto g = rows_of<A>(g_TG), beta = rows_of<A>(beta_TG);
    for_rows("delta_gates", a_TG.dim(0), G, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        for (std::int64_t h = 0; h < G; ++h) {
          const A x = load(a[t][h]) + load(bias[h]);
          g[t][h] = -std::exp(load(decay[h])) * math::softplus<HostMath>(x);
          beta[t][h] = math::logistic<HostMath>(load(b[t][h])).value;
        }
    });
  });
}

void delta_gates_backward(Stream& /*stream*/, const TensorView& a_TG,
                          const TensorView& b_TG, const TensorView& decay_G,
                          const TensorView& bias_G, const TensorView& dg_TG,
                          const TensorView& dbeta_TG, const TensorView& da_TG,
                          const TensorView& db_TG) {
  const std::int64_t G = a_TG.dim(1);
  visit_floating(a_TG.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto a = rows_of<const T>(a_TG), b = rows_of<const T>(b_TG);
    const T *decay = decay_G.data<T>(), *bias = bias_G.data<T>();
    const auto dg = rows_of<A>(dg_TG), dbeta = rows_of<A>(dbeta_TG);
    const auto da = rows_of<T>(da_TG), db = rows_of<T>(db_TG);
    for_rows("delta_gates_backward", a_TG.dim(0), G,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t t = begin; t < end; ++t)
                 for (std::int64_t h = 0; h < G; ++h) {
                   const auto d = math::delta_gate_gradients<HostMath>(
                       load(a[t][h]) + load(bias[h]), load(b[t][h]), load(decay[h]),
                       dg[t][h], dbeta[t][h]);
                   da[t][h] = store<T>(d.a);
                   db[t][h] = store<T>(d.b);
                   dg[t][h] = d.decay;
                   dbeta[t][h] = d.a;
                 }
             });
  });
}

}  // namespace trireme::kernels::host
