// An MoE layer in double, token by token.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/moe.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>

#include "kernels/reference/activation.hpp"

namespace trireme::kernels::reference {
namespace {

using Vector = std::vector<double>;

Vector product(const Vector& weight_OI, std::span<const double> x_I) {
  Vector y(weight_OI.size() / x_I.size());
  for (std::size_t o = 0; o < y.size(); ++o)
    for (std::size_t i = 0; i < x_I.size(); ++i)
      y[o] += weight_OI[o * x_I.size() + i] * x_I[i];
  return y;
}

// The same with a bias, unless it is empty.
Vector product(const Vector& weight_OI, std::span<const double> x_I,
               const Vector& bias_O) {
  Vector y = product(weight_OI, x_I);
  for (std::size_t o = 0; o < bias_O.size(); ++o) y[o] += bias_O[o];
  return y;
}

void add_feed_forward(Activation kind, const FeedForward& f, double weight,
                      std::span<const double> x_D, std::span<double> y_D) {
  Vector a = product(f.up_FD, x_D, f.up_F);
  if (row_of(kind).gated) {
    const Vector gate = product(f.gate_FD, x_D, f.gate_F);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = activation(kind, gate[i], a[i]);
  } else {
    for (double& x : a) x = activation(kind, x);
  }
  const Vector y = product(f.down_DF, a, f.down_D);
  for (std::size_t d = 0; d < y.size(); ++d) y_D[d] += weight * y[d];
}

Vector scores_of(RouterScore kind, const Vector& logits) {
  Vector s = logits;
  if (kind == RouterScore::sigmoid) {
    for (double& x : s) x = 1 / (1 + std::exp(-x));
    return s;
  }
  const double highest = *std::max_element(s.begin(), s.end());
  for (double& x : s) x = std::exp(x - highest);
  const double sum = std::accumulate(s.begin(), s.end(), 0.0);
  for (double& x : s) x /= sum;
  return s;
}

Vector weights_of(const RouterWeights& rule, const Vector& scores,
                  const std::vector<std::int32_t>& choice) {
  Vector w;
  for (const auto e : choice) w.push_back(scores[static_cast<std::size_t>(e)]);
  const double sum = rule.normalise ? std::accumulate(w.begin(), w.end(), 0.0) : 1.0;
  for (double& x : w) x *= rule.scaling / sum;
  return w;
}

template <class V>
void append(V& all, const V& some) {
  all.insert(all.end(), some.begin(), some.end());
}

// sum over sequences of sum_e f_e P_e.
double balance_of(const MoeLayer& layer, const MoeResult& r) {
  const auto E = static_cast<std::size_t>(layer.expert_count());
  const auto S = static_cast<std::size_t>(layer.sequence);
  const auto K = static_cast<std::size_t>(layer.top_k);
  double sum = 0;
  for (std::size_t b = 0; b < static_cast<std::size_t>(layer.tokens) / S; ++b) {
    Vector f(E), p(E);
    for (std::size_t t = b * S; t < (b + 1) * S; ++t) {
      const Vector raw(&r.scores_TE[t * E], &r.scores_TE[t * E] + E);
      const double total = std::accumulate(raw.begin(), raw.end(), 0.0);
      for (std::size_t e = 0; e < E; ++e) p[e] += raw[e] / total / static_cast<double>(S);
      for (const auto e : largest(limited_to_groups(layer.groups, raw), layer.top_k))
        f[static_cast<std::size_t>(e)] +=
            static_cast<double>(E) / static_cast<double>(K * S);
    }
    for (std::size_t e = 0; e < E; ++e) sum += f[e] * p[e];
  }
  return sum;
}

}  // namespace

std::vector<std::int32_t> largest(const std::vector<double>& values, std::int64_t K) {
  std::vector<std::int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(K));
  return order;
}

std::vector<double> limited_to_groups(const ExpertGroups& of,
                                      const std::vector<double>& values) {
  const auto groups = static_cast<std::size_t>(of.groups), size = values.size() / groups;
  Vector sums;
  for (std::size_t g = 0; g < groups; ++g) {
    Vector group(&values[g * size], &values[g * size] + size);
    std::sort(group.rbegin(), group.rend());
    group.resize(std::min(size, static_cast<std::size_t>(of.counted)));
    sums.push_back(std::accumulate(group.begin(), group.end(), 0.0));
  }
  Vector limited(values.size(), -std::numeric_limits<double>::infinity());
  for (const auto g : largest(sums, of.used)) {
    const std::size_t first = static_cast<std::size_t>(g) * size;
    std::copy_n(&values[first], size, &limited[first]);
  }
  return limited;
}

MoeResult moe(const MoeLayer& layer, const std::vector<double>& x_TD) {
  const auto D = static_cast<std::size_t>(layer.hidden);
  MoeResult r;
  r.y_TD.resize(x_TD.size());
  r.load_E.resize(layer.experts.size());
  Vector used;  // of the capacity, by the tokens of this sequence before this one
  for (std::size_t t = 0; t < static_cast<std::size_t>(layer.tokens); ++t) {
    if (t % static_cast<std::size_t>(layer.sequence) == 0)
      used.assign(r.load_E.size(), 0);
    const std::span<const double> x_D(&x_TD[t * D], D);
    const std::span<double> y_D(&r.y_TD[t * D], D);
    const Vector logits = product(layer.router_ED, x_D, layer.logit_bias_E);
    const Vector scores = scores_of(layer.score, logits);
    Vector biased = scores;
    for (std::size_t e = 0; e < layer.bias_E.size(); ++e) biased[e] += layer.bias_E[e];
    const auto choice = largest(limited_to_groups(layer.groups, biased), layer.top_k);
    Vector weights = weights_of(layer.weights, scores, choice);
    double sum = 0;
    for (const double x : logits) sum += std::exp(x);
    r.z += std::pow(std::log(sum), 2);
    for (std::size_t k = 0; k < choice.size(); ++k) {
      const auto e = static_cast<std::size_t>(choice[k]);
      r.load_E[e] += 1;
      used[e] += 1;
      if (layer.capacity > 0 && used[e] > static_cast<double>(layer.capacity))
        weights[k] = 0;
      add_feed_forward(layer.activation, layer.experts[e], weights[k], x_D, y_D);
    }
    if (!layer.shared.up_FD.empty()) {
      const Vector& gate = layer.shared_gate_D;
      const double weight =
          gate.empty() ? 1.0 : 1 / (1 + std::exp(-product(gate, x_D).front()));
      add_feed_forward(layer.activation, layer.shared, weight, x_D, y_D);
    }
    append(r.logits_TE, logits);
    append(r.scores_TE, scores);
    append(r.weights_TK, weights);
    append(r.choice_TK, choice);
  }
  r.balance = balance_of(layer, r);
  return r;
}

}  // namespace trireme::kernels::reference
