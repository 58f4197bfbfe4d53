// A chunk of the gated delta rule, forward and backward, the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
// With G_i = g_1 + ... + g_i over the rows of a chunk and document, S the state before
// it, and h_i = e^G_i, which is 0 where row i's document begins within the chunk, as are
// D_ij = e^(G_i - G_j) of rows of two documents:
//   (1 + L) U = beta (V - h K S),  L_ij = beta_i D_ij (k_i k_j), j < i
//   O = h Q S + P U,               P_ij = D_ij (q_i k_j), j <= i
//   S' = h_c S + sum over j of D_cj k_j u_j^T,  c the last row
// All exponents are at most 0. Source: Yang et al., "Parallelizing Linear Transformers
// with the Delta Rule", 2024, section 3.2, and "Gated Delta Networks", 2024, section 3.3,
// with the triangular system solved for the chunk's own right side.
//
// The work of a chunk is done by a team: the thread of a host that has the head, or a
// block of a GPU. A team has exp_of_nonpositive, load, store<T>, and, each of which ends
// when all of it is done:
//   each(n, f): f(i) for i < n; each(m, n, f): f(i, j); product(DeltaProduct);
//   solve(L, rows, U, V): U = (1 + L)^-1 U in place, and solve_transposed().
// Legend: C rows of a chunk, at most delta_chunk_rows, K, V; matrices [C, C] have rows of
// delta_chunk_rows.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/delta_space.hpp"

namespace trireme::kernels::math {

// One chunk: rows [first, first + rows) of the head.
template <class Team, class T, class A>
class DeltaChunk {
 public:
  TRIREME_HOST_DEVICE DeltaChunk(const Team& team, const DeltaSizes& of,
                                 const DeltaHead<T, A>& head,
                                 const DeltaChunkSpace<A>& space, std::int64_t first)
      : team_(team),
        of_(of),
        head_(head),
        s_(space),
        first_(first),
        rows_(of.S - first < C ? of.S - first : C) {}

  // q and k, and the products of their rows: of all value heads.
  TRIREME_HOST_DEVICE void load_keys() const {
    const auto K = of_.K;
    const A scale = A(1) / static_cast<A>(std::sqrt(static_cast<double>(K)));
    load_unit_rows(head_.q, scale, s_.q, s_.q_length);
    load_unit_rows(head_.k, A(1), s_.k, s_.k_length);
    team_.product(DeltaProduct<A>{rows_, rows_, K, s_.k, K, 1, s_.k, 1, K, s_.kk, C});
    team_.product(DeltaProduct<A>{rows_, rows_, K, s_.q, K, 1, s_.k, 1, K, s_.qk, C});
  }

  // Forward of value head r from `before`; `after` may be `before`, or null.
  TRIREME_HOST_DEVICE void forward(std::int64_t r, const A* before, A* after) const {
    const auto K = of_.K, V = of_.V;
    solve_values(r, before);
    meet(before);
    team_.product(
        DeltaProduct<A>{rows_, V, rows_, s_.p, C, 1, s_.u, V, 1, s_.met, V, true});
    const DeltaMatrix<T> o = head_.o;
    const std::int64_t first = first_;
    const A* const met = s_.met;
    team_.each(rows_, V, [=](std::int64_t i, std::int64_t j) {
      o.row(first + i)[r * V + j] = Team::template store<T>(met[i * V + j]);
    });
    if (after == nullptr) return;
    const A last = s_.h[rows_ - 1];
    team_.each(K, V, [=](std::int64_t i, std::int64_t j) {
      after[i * V + j] = last * before[i * V + j];
    });
    scale_rows(s_.k, last_decay());
    team_.product(
        DeltaProduct<A>{K, V, rows_, s_.scaled, 1, K, s_.u, V, 1, after, V, true});
  }

  // Backward of value head r; adds to dq and dk of the space. d.ds of this head: of the
  // state behind the chunk, becomes that of `before`.
  TRIREME_HOST_DEVICE void backward(std::int64_t r, const A* before,
                                    const DeltaGradientSpace<A>& d) const {
    solve_values(r, before);
    meet(before);
    load_gradient(r, d);
    A* const ds = d.ds + r * of_.K * of_.V;
    output_backward(before, ds, d);
    solve_backward(before, d);
    gate_gradients(d);
    write_value_gradients(r, d);
    state_backward(ds, d);
  }

  // The gradients of q and k as they were before they had length 1.
  TRIREME_HOST_DEVICE void write_key_gradients(const DeltaGradientSpace<A>& d) const {
    const A scale = A(1) / static_cast<A>(std::sqrt(static_cast<double>(of_.K)));
    store_unit_rows(head_.dq, d.dq, s_.q, s_.q_length, scale);
    store_unit_rows(head_.dk, d.dk, s_.k, s_.k_length, A(1));
  }

 private:
  static constexpr std::int64_t C = delta_chunk_rows;

  // Rows of x, times scale / (their length).
  TRIREME_HOST_DEVICE void load_unit_rows(const DeltaMatrix<T>& x, A scale, A* rows,
                                          A* length) const {
    const std::int64_t K = of_.K, first = first_;
    const A eps = static_cast<A>(of_.eps);
    team_.each(rows_, [=](std::int64_t i) {
      const T* const from = x.row(first + i);
      A sum = 0;
      for (std::int64_t c = 0; c < K; ++c)
        sum += Team::load(from[c]) * Team::load(from[c]);
      const A by = scale / std::sqrt(sum + eps);
      length[i] = by;
      for (std::int64_t c = 0; c < K; ++c) rows[i * K + c] = by * Team::load(from[c]);
    });
  }

  // With n = x / |x|: dx = (dn - n (n dn)) / |x|; rows hold scale n, and d is of them.
  TRIREME_HOST_DEVICE void store_unit_rows(const DeltaMatrix<T>& dx, const A* d,
                                           const A* rows, const A* length,
                                           A scale) const {
    const std::int64_t K = of_.K, first = first_;
    team_.each(rows_, [=](std::int64_t i) {
      A along = 0;
      for (std::int64_t c = 0; c < K; ++c) along += rows[i * K + c] * d[i * K + c];
      along /= scale * scale;
      T* const to = dx.row(first + i);
      for (std::int64_t c = 0; c < K; ++c)
        to[c] =
            Team::template store<T>(length[i] * (d[i * K + c] - rows[i * K + c] * along));
    });
  }

  // Whether a document begins with a row, whose g then meets nothing.
  TRIREME_HOST_DEVICE static bool begins(const DeltaHead<T, A>& head, std::int64_t row) {
    return head.starts != nullptr && head.starts[row] == row;
  }

  // G, h, beta and D.
  TRIREME_HOST_DEVICE void load_gates(std::int64_t r) const {
    const std::int64_t first = first_, rows = rows_;
    const DeltaHead<T, A> head = head_;
    const DeltaChunkSpace<A> s = s_;
    team_.each(1, [=](std::int64_t) {
      A sum = 0;
      for (std::int64_t i = 0; i < rows; ++i) {
        sum = begins(head, first + i) ? A(0) : sum + head.g.row(first + i)[r];
        s.sum[i] = sum;
      }
    });
    team_.each(rows, [=](std::int64_t i) {
      const std::int32_t* const starts = head.starts;
      const bool goes_on = starts == nullptr || starts[first + i] < first;
      s.h[i] = goes_on ? Team::exp_of_nonpositive(s.sum[i]) : A(0);
      s.beta[i] = head.beta.row(first + i)[r];
      const std::int64_t begin =
          goes_on ? 0 : static_cast<std::int64_t>(starts[first + i]) - first;
      for (std::int64_t j = 0; j < rows; ++j)
        s.decay[i * C + j] =
            j < begin || j > i ? A(0) : Team::exp_of_nonpositive(s.sum[i] - s.sum[j]);
    });
  }

  // U, with L, P and h K S.
  TRIREME_HOST_DEVICE void solve_values(std::int64_t r, const A* before) const {
    const std::int64_t V = of_.V, K = of_.K, first = first_;
    load_gates(r);
    const DeltaChunkSpace<A> s = s_;
    team_.each(rows_, rows_, [=](std::int64_t i, std::int64_t j) {
      const std::int64_t at = i * C + j;
      s.low[at] = j < i ? s.beta[i] * s.decay[at] * s.kk[at] : A(0);
      s.p[at] = s.decay[at] * s.qk[at];
    });
    team_.product(DeltaProduct<A>{rows_, V, K, s.k, K, 1, before, V, 1, s.kept, V, false,
                                  A(1), s.h});
    const DeltaMatrix<T> v = head_.v;
    team_.each(rows_, V, [=](std::int64_t i, std::int64_t j) {
      const A value = Team::load(v.row(first + i)[r * V + j]);
      s.u[i * V + j] = s.beta[i] * (value - s.kept[i * V + j]);
    });
    team_.solve(s.low, rows_, s.u, V);
  }

  // h Q S
  TRIREME_HOST_DEVICE void meet(const A* before) const {
    const std::int64_t K = of_.K, V = of_.V;
    team_.product(DeltaProduct<A>{rows_, V, K, s_.q, K, 1, before, V, 1, s_.met, V, false,
                                  A(1), s_.h});
  }

  // D of the last row.
  TRIREME_HOST_DEVICE const A* last_decay() const { return s_.decay + (rows_ - 1) * C; }

  TRIREME_HOST_DEVICE void scale_rows(const A* x, const A* by) const {
    const std::int64_t K = of_.K;
    A* const scaled = s_.scaled;
    team_.each(rows_, K, [=](std::int64_t i, std::int64_t j) {
      scaled[i * K + j] = by[i] * x[i * K + j];
    });
  }

  TRIREME_HOST_DEVICE void load_gradient(std::int64_t r,
                                         const DeltaGradientSpace<A>& d) const {
    const std::int64_t V = of_.V, first = first_;
    const DeltaMatrix<T> o = head_.o, v = head_.v;
    A *const d_o = d.d_o, *const values = d.v;
    team_.each(rows_, V, [=](std::int64_t i, std::int64_t j) {
      d_o[i * V + j] = Team::load(o.row(first + i)[r * V + j]);
      values[i * V + j] = Team::load(v.row(first + i)[r * V + j]);
    });
  }

  // From dO and the gradient of S': dU, dP times D, what they give dq and dk, and dG.
  TRIREME_HOST_DEVICE void output_backward(const A* before, const A* ds,
                                           const DeltaGradientSpace<A>& d) const {
    const std::int64_t K = of_.K, V = of_.V, N = rows_;
    const DeltaChunkSpace<A> s = s_;
    const A* const last = last_decay();
    using Product = DeltaProduct<A>;
    team_.product(Product{N, V, K, s.k, K, 1, ds, V, 1, d.ds_k, V, false, A(1), last});
    team_.product(Product{N, V, N, s.p, 1, C, d.d_o, V, 1, d.du, V});
    team_.product(Product{N, N, V, d.d_o, V, 1, s.u, 1, V, d.dp, C});
    const DeltaGradientSpace<A> to = d;
    team_.each(K, [=](std::int64_t k) {
      A sum = 0;
      for (std::int64_t j = 0; j < V; ++j) sum += ds[k * V + j] * before[k * V + j];
      to.by_row[k] = sum;
    });
    team_.each(N, V, [=](std::int64_t i, std::int64_t j) {
      to.du[i * V + j] += to.ds_k[i * V + j];
    });
    team_.each(N, N, [=](std::int64_t i, std::int64_t j) {
      to.dp[i * C + j] *= s.decay[i * C + j];
    });
    team_.each(N, [=](std::int64_t i) {
      A sum = 0;
      for (std::int64_t j = 0; j < V; ++j) sum += to.ds_k[i * V + j] * s.u[i * V + j];
      to.given[i] = sum;
      to.dsum[i] = 0;
    });
    team_.each(1, [=](std::int64_t) {
      A whole = 0;
      for (std::int64_t k = 0; k < K; ++k) whole += to.by_row[k];
      to.dsum[N - 1] = s.h[N - 1] * whole;
    });
    team_.product(Product{N, K, V, d.d_o, V, 1, before, 1, V, d.dq, K, true, A(1), s.h});
    team_.product(Product{N, K, N, d.dp, C, 1, s.k, K, 1, d.dq, K, true});
    team_.product(Product{N, K, N, d.dp, 1, C, s.q, K, 1, d.dk, K, true});
    team_.product(Product{N, K, V, s.u, V, 1, ds, 1, V, d.dk, K, true, A(1), last});
  }

  // Through the triangular system: du becomes the gradient of V, and dl that of K K^T.
  TRIREME_HOST_DEVICE void solve_backward(const A* before,
                                          const DeltaGradientSpace<A>& d) const {
    const std::int64_t K = of_.K, V = of_.V, N = rows_;
    const DeltaChunkSpace<A> s = s_;
    const DeltaGradientSpace<A> to = d;
    using Product = DeltaProduct<A>;
    team_.solve_transposed(s.low, N, d.du, V);
    team_.product(Product{N, N, V, d.du, V, 1, s.u, 1, V, d.dl, C, false, A(-1)});
    team_.each(N, [=](std::int64_t i) {
      A of_beta = 0, of_sum = 0;
      for (std::int64_t j = 0; j < V; ++j) {
        const std::int64_t at = i * V + j;
        of_beta += to.du[at] * (to.v[at] - s.kept[at]);
        to.du[at] *= s.beta[i];
        of_sum += to.d_o[at] * s.met[at] - to.du[at] * s.kept[at];
      }
      for (std::int64_t j = 0; j < N; ++j) {
        const std::int64_t at = i * C + j;
        const A dl = j < i ? to.dl[at] * s.decay[at] : A(0);
        of_beta += dl * s.kk[at];
        to.dl[at] = dl * s.beta[i];
      }
      to.dbeta[i] = of_beta;
      to.dsum[i] += of_sum;
    });
    team_.product(Product{N, K, N, d.dl, C, 1, s.k, K, 1, d.dk, K, true});
    team_.product(Product{N, K, N, d.dl, 1, C, s.k, K, 1, d.dk, K, true});
    team_.product(Product{N, K, V, d.du, V, 1, before, 1, V, d.dk, K, true, A(-1), s.h});
  }

  // D_ij has the g of rows j + 1 to i, and h_i those up to i. Each g adds up the terms
  // that have it: sums over all G would hold each term twice, once with the other sign.
  TRIREME_HOST_DEVICE void gate_gradients(const DeltaGradientSpace<A>& d) const {
    const std::int64_t N = rows_;
    const DeltaChunkSpace<A> s = s_;
    const DeltaGradientSpace<A> to = d;
    team_.each(N, N, [=](std::int64_t i, std::int64_t j) {
      const std::int64_t at = i * C + j;
      const A given = i == N - 1 ? to.given[j] : A(0);
      to.dp[at] = j < i ? to.dp[at] * s.qk[at] + to.dl[at] * s.kk[at] + given : A(0);
    });
    team_.each(N, [=](std::int64_t row) {
      A all = 0;
      for (std::int64_t i = row; i < N; ++i) {
        A sum = to.dsum[i];
        for (std::int64_t j = 0; j < row; ++j) sum += to.dp[i * C + j];
        all += sum;
      }
      to.dg[row] = all;
    });
  }

  TRIREME_HOST_DEVICE void write_value_gradients(std::int64_t r,
                                                 const DeltaGradientSpace<A>& d) const {
    const std::int64_t V = of_.V, first = first_, N = rows_;
    const DeltaHead<T, A> head = head_;
    const DeltaGradientSpace<A> from = d;
    team_.each(N, V, [=](std::int64_t i, std::int64_t j) {
      head.dv.row(first + i)[r * V + j] = Team::template store<T>(from.du[i * V + j]);
    });
    team_.each(N, [=](std::int64_t i) {
      head.dg.row(first + i)[r] = from.dg[i];
      head.dbeta.row(first + i)[r] = from.dbeta[i];
    });
  }

  TRIREME_HOST_DEVICE void state_backward(A* ds, const DeltaGradientSpace<A>& d) const {
    const std::int64_t K = of_.K, V = of_.V, N = rows_;
    const A last = s_.h[N - 1];
    using Product = DeltaProduct<A>;
    team_.each(K, V, [=](std::int64_t i, std::int64_t j) { ds[i * V + j] *= last; });
    scale_rows(s_.q, s_.h);
    team_.product(Product{K, V, N, s_.scaled, 1, K, d.d_o, V, 1, ds, V, true});
    scale_rows(s_.k, s_.h);
    team_.product(Product{K, V, N, s_.scaled, 1, K, d.du, V, 1, ds, V, true, A(-1)});
  }

  const Team& team_;
  const DeltaSizes& of_;
  const DeltaHead<T, A>& head_;
  const DeltaChunkSpace<A>& s_;
  std::int64_t first_, rows_;
};

// All rows of a head, chunk by chunk.
template <class Team, class T, class A>
TRIREME_HOST_DEVICE void delta_forward(const Team& team, const DeltaSizes& of,
                                       const DeltaHead<T, A>& head, A* memory) {
  constexpr std::int64_t C = delta_chunk_rows;
  DeltaSpace<A> cut{memory};
  const DeltaChunkSpace<A> space = delta_chunk_space(cut, of);
  const std::int64_t chunks = (of.S + C - 1) / C, KV = of.K * of.V;
  if (head.states != nullptr) {
    team.each(of.R, KV, [=](std::int64_t r, std::int64_t i) {
      head.states[r * chunks * KV + i] = A(0);
    });
  }
  for (std::int64_t c = 0; c < chunks; ++c) {
    const DeltaChunk<Team, T, A> chunk(team, of, head, space, c * C);
    chunk.load_keys();
    for (std::int64_t r = 0; r < of.R; ++r) {
      A *before, *after;
      if (head.states != nullptr) {
        before = head.states + (r * chunks + c) * KV;
        after = c + 1 < chunks ? before + KV : nullptr;
      } else {
        before = after = head.state + r * KV;
      }
      chunk.forward(r, before, after);
    }
  }
}

template <class Team, class T, class A>
TRIREME_HOST_DEVICE void delta_backward(const Team& team, const DeltaSizes& of,
                                        const DeltaHead<T, A>& head, A* memory) {
  constexpr std::int64_t C = delta_chunk_rows;
  DeltaSpace<A> cut{memory};
  const DeltaChunkSpace<A> space = delta_chunk_space(cut, of);
  const DeltaGradientSpace<A> d = delta_gradient_space(cut, of);
  const std::int64_t chunks = (of.S + C - 1) / C, KV = of.K * of.V;
  team.each(of.R, KV, [=](std::int64_t r, std::int64_t i) { d.ds[r * KV + i] = A(0); });
  for (std::int64_t c = chunks; c-- > 0;) {
    const DeltaChunk<Team, T, A> chunk(team, of, head, space, c * C);
    chunk.load_keys();
    team.each(C, of.K, [=](std::int64_t i, std::int64_t j) {
      d.dq[i * of.K + j] = d.dk[i * of.K + j] = A(0);
    });
    for (std::int64_t r = 0; r < of.R; ++r)
      chunk.backward(r, head.states + (r * chunks + c) * KV, d);
    chunk.write_key_gradients(d);
  }
}

}  // namespace trireme::kernels::math
