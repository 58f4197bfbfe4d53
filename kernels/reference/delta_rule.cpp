// The gated delta rule row by row, and its convolution, in plain double loops.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/delta_rule.hpp"

#include <cmath>

namespace trireme::kernels::reference {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// A row of width K of length 1, and what it was multiplied by.
struct Unit {
  Vector row;
  double by;
};

Unit unit(const Vector& x, std::size_t at, std::size_t K, double eps) {
  double sum = eps;
  for (std::size_t c = 0; c < K; ++c) sum += x[at + c] * x[at + c];
  Unit of{Vector(K), 1 / std::sqrt(sum)};
  for (std::size_t c = 0; c < K; ++c) of.row[c] = x[at + c] * of.by;
  return of;
}

// d += the gradient of x from that of x / |x|.
void add_unit_gradient(const Unit& of, const Vector& dunit, Vector& d, std::size_t at) {
  double along = 0;
  for (std::size_t c = 0; c < dunit.size(); ++c) along += of.row[c] * dunit[c];
  for (std::size_t c = 0; c < dunit.size(); ++c)
    d[at + c] += of.by * (dunit[c] - of.row[c] * along);
}

// Everything about row t of sequence b and value head h that both directions use.
struct Row {
  std::size_t key, value, gate;  // where its key, its value and its gates begin
  bool begins;
};

struct Sizes {
  std::size_t S, H, G, K, V;
  explicit Sizes(const DeltaShape& s)
      : S(size(s.sequence)),
        H(size(s.key_heads)),
        G(size(s.value_heads)),
        K(size(s.key_width)),
        V(size(s.value_width)) {}
  Row row(std::size_t b, std::size_t t, std::size_t h,
          std::span<const int> starts) const {
    const std::size_t at = b * S + t;
    return {(at * H + h / (G / H)) * K, (at * G + h) * V, at * G + h,
            !starts.empty() && starts[at] == static_cast<int>(t)};
  }
};

// What a row does to the state of its head: the state before it, after it has forgotten,
// and its correction u.
struct Step {
  Unit q, k;
  Vector decayed, u;  // [K, V], [V]
};

Step step(const DeltaShape& shape, const Sizes& n, const DeltaVectors& in, const Row& row,
          Vector& state) {
  Step s{unit(in.q, row.key, n.K, shape.eps), unit(in.k, row.key, n.K, shape.eps), state,
         Vector(n.V)};
  const double keep = row.begins ? 0 : std::exp(in.g[row.gate]);
  for (double& x : s.decayed) x *= keep;
  for (std::size_t j = 0; j < n.V; ++j) {
    double known = 0;
    for (std::size_t c = 0; c < n.K; ++c) known += s.decayed[c * n.V + j] * s.k.row[c];
    s.u[j] = in.beta[row.gate] * (in.v[row.value + j] - known);
  }
  state = s.decayed;
  for (std::size_t c = 0; c < n.K; ++c)
    for (std::size_t j = 0; j < n.V; ++j) state[c * n.V + j] += s.k.row[c] * s.u[j];
  return s;
}

}  // namespace

Vector delta_rule(const DeltaShape& shape, const DeltaVectors& in,
                  std::span<const int> starts_T, Vector* state) {
  const Sizes n(shape);
  Vector o(in.v.size());
  const double scale = 1 / std::sqrt(static_cast<double>(n.K));
  for (std::size_t b = 0; b < size(shape.batch); ++b)
    for (std::size_t h = 0; h < n.G; ++h) {
      Vector S(n.K * n.V, 0.0);
      const std::size_t at = (b * n.G + h) * n.K * n.V;
      if (state != nullptr)
        for (std::size_t i = 0; i < S.size(); ++i) S[i] = (*state)[at + i];
      for (std::size_t t = 0; t < n.S; ++t) {
        const Row row = n.row(b, t, h, starts_T);
        const Step s = step(shape, n, in, row, S);
        for (std::size_t c = 0; c < n.K; ++c)
          for (std::size_t j = 0; j < n.V; ++j)
            o[row.value + j] += scale * s.q.row[c] * S[c * n.V + j];
      }
      if (state != nullptr)
        for (std::size_t i = 0; i < S.size(); ++i) (*state)[at + i] = S[i];
    }
  return o;
}

namespace {

// Row t backward: d_state is that behind the row, and becomes that before it.
void step_backward(const Sizes& n, const DeltaVectors& in, const Row& row, const Step& s,
                   const Vector& before, const Vector& d_o, Vector& d_state,
                   DeltaVectors& d) {
  const double scale = 1 / std::sqrt(static_cast<double>(n.K));
  const double beta = in.beta[row.gate];
  Vector dq(n.K, 0.0), dk(n.K, 0.0), du(n.V, 0.0);
  for (std::size_t c = 0; c < n.K; ++c)
    for (std::size_t j = 0; j < n.V; ++j) {
      const std::size_t at = c * n.V + j;
      const double after = s.decayed[at] + s.k.row[c] * s.u[j];
      dq[c] += scale * after * d_o[row.value + j];
      d_state[at] += scale * s.q.row[c] * d_o[row.value + j];
      dk[c] += d_state[at] * s.u[j];
      du[j] += d_state[at] * s.k.row[c];
    }
  for (std::size_t j = 0; j < n.V; ++j) {
    d.beta[row.gate] += du[j] * s.u[j] / beta;
    d.v[row.value + j] += beta * du[j];
    for (std::size_t c = 0; c < n.K; ++c) {
      dk[c] -= beta * du[j] * s.decayed[c * n.V + j];
      d_state[c * n.V + j] -= beta * du[j] * s.k.row[c];
    }
  }
  const double keep = row.begins ? 0 : std::exp(in.g[row.gate]);
  for (std::size_t at = 0; at < d_state.size(); ++at) {
    d.g[row.gate] += d_state[at] * keep * before[at];
    d_state[at] *= keep;
  }
  add_unit_gradient(s.q, dq, d.q, row.key);
  add_unit_gradient(s.k, dk, d.k, row.key);
}

}  // namespace

DeltaVectors delta_rule_backward(const DeltaShape& shape, const DeltaVectors& in,
                                 std::span<const int> starts_T, const Vector& d_o) {
  const Sizes n(shape);
  DeltaVectors d{Vector(in.q.size()), Vector(in.k.size()), Vector(in.v.size()),
                 Vector(in.g.size()), Vector(in.beta.size())};
  for (std::size_t b = 0; b < size(shape.batch); ++b)
    for (std::size_t h = 0; h < n.G; ++h) {
      std::vector<Vector> before;
      std::vector<Step> steps;
      Vector S(n.K * n.V, 0.0);
      for (std::size_t t = 0; t < n.S; ++t) {
        before.push_back(S);
        steps.push_back(step(shape, n, in, n.row(b, t, h, starts_T), S));
      }
      Vector d_state(n.K * n.V, 0.0);
      for (std::size_t t = n.S; t-- > 0;)
        step_backward(n, in, n.row(b, t, h, starts_T), steps[t], before[t], d_o, d_state,
                      d);
    }
  return d;
}

namespace {

// f(row, channel, tap, row that the tap meets) for all that meet.
template <class F>
void for_taps(std::int64_t sequence, std::span<const int> starts_T, std::size_t rows,
              std::size_t channels, std::int64_t taps, const F& f) {
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t t = static_cast<std::int64_t>(row) % sequence;
    const std::int64_t start = starts_T.empty() ? 0 : starts_T[row];
    for (std::int64_t w = 0; w < taps; ++w) {
      const std::int64_t back = taps - 1 - w;
      if (t - back < start) continue;
      for (std::size_t c = 0; c < channels; ++c) f(row, c, size(w), row - size(back));
    }
  }
}

}  // namespace

Vector causal_conv(std::int64_t sequence, std::span<const int> starts_T, const Vector& x,
                   const Vector& weight, std::int64_t taps) {
  const std::size_t C = weight.size() / size(taps);
  Vector u(x.size(), 0.0);
  for_taps(sequence, starts_T, x.size() / C, C, taps,
           [&](std::size_t row, std::size_t c, std::size_t w, std::size_t from) {
             u[row * C + c] += weight[c * size(taps) + w] * x[from * C + c];
           });
  return u;
}

ConvGradients causal_conv_backward(std::int64_t sequence, std::span<const int> starts_T,
                                   const Vector& x, const Vector& weight,
                                   std::int64_t taps, const Vector& dy) {
  const std::size_t C = weight.size() / size(taps);
  Vector du = causal_conv(sequence, starts_T, x, weight, taps);
  for (std::size_t i = 0; i < du.size(); ++i) {
    const double sigma = 1 / (1 + std::exp(-du[i]));
    du[i] = dy[i] * sigma * (1 + du[i] * (1 - sigma));
  }
  ConvGradients d{Vector(x.size(), 0.0), Vector(weight.size(), 0.0)};
  for_taps(sequence, starts_T, x.size() / C, C, taps,
           [&](std::size_t row, std::size_t c, std::size_t w, std::size_t from) {
             d.x[from * C + c] += weight[c * size(taps) + w] * du[row * C + c];
             d.weight[c * size(taps) + w] += x[from * C + c] * du[row * C + c];
           });
  return d;
}

}  // namespace trireme::kernels::reference
