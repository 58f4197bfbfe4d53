// How far attention in bf16 and fp16 may be from the truth, element by element.
// SPDX-License-Identifier: Apache-2.0
// It says what rounding probabilities and their gradients to 16 bits can do.
#pragma once

#include "attention_case.hpp"

namespace trireme::test {

using Doubles = std::vector<double>;

// How far each element of the results may be from the truth.
struct Bounds {
  Doubles o, dq, dk, dv;
};

// One query of one head: probabilities p_j and what follows from them.
struct Row {
  std::size_t q, k, width, step;  // where the query and its first key begin
  Range keys;
  double e, u;      // relative error of a probability, of rounding to T
  double smallest;  // absolute error of a probability, relative to the largest
};

inline double product(const Doubles& a, std::size_t i, const Doubles& b, std::size_t j,
                      std::size_t width, bool absolute = false) {
  double sum = 0;
  for (std::size_t c = 0; c < width; ++c)
    sum += absolute ? std::abs(a[i + c] * b[j + c]) : a[i + c] * b[j + c];
  return sum;
}

// Adds the row's share to the bounds. With p rounded to T, |error of p| <= e p +
// smallest; delta = <do, o> errs by |do| times o's error; ds = p (dp - delta) is rounded
// again.
inline void add_row(const Row& row, double scale, const Doubles& q, const Doubles& k,
                    const Doubles& v, const Doubles& d_o, Bounds& to) {
  const auto n = static_cast<std::size_t>(row.keys.count());
  const auto key = [&](std::size_t j) { return row.k + j * row.step; };
  Doubles p(n), o_error(row.width);
  double most = -1e300, sum = 0, mean = 0, delta_error = 0;
  for (std::size_t j = 0; j < n; ++j)
    most = std::max(most, p[j] = scale * product(q, row.q, k, key(j), row.width));
  for (double& x : p) sum += x = std::exp(x - most);
  for (std::size_t j = 0; j < n; ++j) {
    p[j] /= sum;
    mean += p[j] * product(d_o, row.q, v, key(j), row.width);
    for (std::size_t c = 0; c < row.width; ++c)
      o_error[c] += (row.e * p[j] + row.smallest / sum) * std::abs(v[key(j) + c]);
  }
  for (std::size_t c = 0; c < row.width; ++c) {
    double o = 0;
    for (std::size_t j = 0; j < n; ++j) o += p[j] * v[key(j) + c];
    to.o[row.q + c] += o_error[c] += row.u * std::abs(o) + row.smallest;
    delta_error += std::abs(d_o[row.q + c]) * o_error[c];
  }
  for (std::size_t j = 0; j < n; ++j) {
    const double dp = product(d_o, row.q, v, key(j), row.width),
                 p_error = row.e * p[j] + row.smallest;
    const double ds_error =
        row.e * p[j] * std::abs(dp - mean) + row.smallest +
        p[j] * (delta_error +
                (row.e - row.u) * product(d_o, row.q, v, key(j), row.width, true));
    for (std::size_t c = 0; c < row.width; ++c) {
      to.dq[row.q + c] += scale * ds_error * std::abs(k[key(j) + c]);
      to.dk[key(j) + c] += scale * ds_error * std::abs(q[row.q + c]);
      to.dv[key(j) + c] += p_error * std::abs(d_o[row.q + c]);
    }
  }
}

// Sums in fp32 of scores of size up to 10 err by less than 8 times what one sum errs.
template <class T>
Bounds bounds_of(const AttentionCase<T>& x) {
  const Doubles q = doubles<T>(x.q()), k = doubles<T>(x.k()), v = doubles<T>(x.v()),
                d_o = doubles<T>(x.d_o());
  Bounds bounds{Doubles(q.size()), Doubles(q.size()), Doubles(k.size()),
                Doubles(k.size())};
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const double u = epsilon<T>() / 2, e = u + 8 * x.accumulated();
  const double smallest = dtype_of<T> == DType::f16 ? 0x1p-25 : 0;
  const auto visible = x.visible();
  const std::int64_t S = x.shape.sequence, K = x.shape.head_width;
  for (std::int64_t t = 0; t < x.rows; ++t)
    for (std::int64_t h = 0; h < x.shape.heads; ++h) {
      const Range keys = visible[size(t)];
      const std::int64_t g = x.shape.kv_head[size(h)];
      add_row({size(t * x.query_width + h * K),
               size((t / S * S + keys.begin) * x.key_width + g * K), size(K),
               size(x.key_width), keys, e, u, smallest},
              x.shape.scale, q, k, v, d_o, bounds);
    }
  return bounds;
}

// Adds what it costs to round dk and dv of each query head to T before heads that share a
// key/value head are added up.
template <class T>
void add_rounded_heads(const AttentionCase<T>& x, Bounds& bounds) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const std::size_t K = size(x.shape.head_width), H = size(x.shape.heads),
                    G = size(x.shape.kv_heads), T_ = size(x.rows);
  // The same attention with keys and values of their own for each query head.
  kernels::AttentionShape alone = x.shape;
  alone.kv_heads = alone.heads;
  const Doubles k = doubles<T>(x.k()), v = doubles<T>(x.v());
  Doubles k_of_heads(T_ * H * K), v_of_heads(T_ * H * K);
  for (std::size_t h = 0; h < H; ++h) {
    alone.kv_head[h] = static_cast<std::int32_t>(h);
    for (std::size_t t = 0; t < T_; ++t)
      for (std::size_t c = 0; c < K; ++c) {
        const std::size_t from = (t * G + size(x.shape.kv_head[h])) * K + c;
        k_of_heads[(t * H + h) * K + c] = k[from];
        v_of_heads[(t * H + h) * K + c] = v[from];
      }
  }
  const auto d = kernels::reference::attention_backward(
      alone, x.visible(), doubles<T>(x.d_o()), doubles<T>(x.q()), k_of_heads, v_of_heads);
  const double u = epsilon<T>() / 2;
  for (std::size_t t = 0; t < T_; ++t)
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t c = 0; c < K; ++c) {
        const std::size_t to = (t * G + size(x.shape.kv_head[h])) * K + c;
        bounds.dk[to] += u * std::abs(d.dk_TGK[(t * H + h) * K + c]);
        bounds.dv[to] += u * std::abs(d.dv_TGK[(t * H + h) * K + c]);
      }
}

// Beside its bound, an element is rounded once more; relative L2 is below 1 %.
template <class T>
void expect_within(const TensorView& view, const Doubles& expected, const Doubles& bound,
                   const std::string& what) {
  const Doubles got = doubles<T>(view);
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(got[i] - expected[i]),
              1.01 * (bound[i] + epsilon<T>() / 2 * std::abs(expected[i])) + 1e-6)
        << what << ", element " << i << ": " << got[i] << " for " << expected[i];
  EXPECT_LT(distance(got, expected, std::sqrt(static_cast<double>(got.size())) / 100),
            1e-2)
      << what;
}

// Forward and backward, all results against the reference.
template <class T>
void expect_agreement(AttentionCase<T>& x, const Bounds& bounds) {
  x.forward();
  x.backward();
  const auto o = x.expected();
  const auto d = x.expected_gradients();
  expect_within<T>(x.o(), o.o_THK, bounds.o, "o of " + x.describe());
  expect_within<T>(x.dq(), d.dq_THK, bounds.dq, "dq of " + x.describe());
  expect_within<T>(x.dk(), d.dk_TGK, bounds.dk, "dk of " + x.describe());
  expect_within<T>(x.dv(), d.dv_TGK, bounds.dv, "dv of " + x.describe());
  EXPECT_LT(distance(doubles<float>(x.lse()), o.lse_TH,
                     std::sqrt(static_cast<double>(o.lse_TH.size()))),
            x.accumulated())
      << x.describe();
  x.expect_margins_untouched();
}

}  // namespace trireme::test
