// Routers, rows sorted by expert, and the products of experts.
// SPDX-License-Identifier: Apache-2.0
// Legend: T tokens, E experts, K experts of a token, N rows, D width, I and O widths.
#include <algorithm>
#include <cmath>

#include "base/philox.hpp"
#include "kernels/arrivals.hpp"
#include "kernels/moe.hpp"
#include "kernels/reference/gemm.hpp"
#include "kernels/reference/moe.hpp"
#include "kernels/router.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;
using Choice = std::vector<std::int32_t>;
using kernels::RouterScore;
using kernels::RouterWeights;

constexpr std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// A layer with one feature for each expert and the identity as router: x = logits.
reference::MoeResult routed(RouterScore score, const RouterWeights& weights,
                            std::int64_t E, std::int64_t K, std::int64_t S,
                            const Vector& logits, const Vector& bias) {
  reference::MoeLayer layer;
  layer.tokens = static_cast<std::int64_t>(logits.size()) / E;
  layer.sequence = S;
  layer.hidden = E;
  layer.top_k = K;
  layer.score = score;
  layer.weights = weights;
  layer.bias_E = bias;
  layer.router_ED.resize(size(E * E));
  for (std::int64_t e = 0; e < E; ++e) layer.router_ED[size(e * E + e)] = 1;
  layer.experts.assign(size(E), {Vector(size(E)), Vector(size(E)), Vector(size(E))});
  return reference::moe(layer, logits);
}

// exp, a sum of E terms, a division or two.
void check_routing(Probe& probe, DType dtype, RouterScore score, std::int64_t E,
                   bool biased) {
  constexpr std::int64_t T = 12, S = 4, K = 2;
  const RouterWeights rule{biased, 2.5};
  Stream& stream = probe.stream();
  const Tensor logits = probe.normal(dtype, {T, E}, 1),
               bias = probe.normal(dtype, {E}, 2);
  const Tensor scores = probe.zeros(dtype, {T, E}), weights = probe.zeros(dtype, {T, K});
  const Tensor lse = probe.zeros(dtype, {T}), counts = probe.zeros(DType::f64, {E});
  const Tensor sums = probe.zeros(dtype, {T / S, 2, E});
  const Integers choice = probe.integers({T, K}), plain = probe.integers({T, K});
  const auto expected =
      routed(score, rule, E, K, S, logits.values(), biased ? bias.values() : Vector{});
  kernels::router_scores(stream, score, logits, scores);
  kernels::choose_experts(stream, scores, biased ? bias.view() : TensorView(), choice);
  kernels::choose_experts(stream, scores, {}, plain);
  kernels::router_weights(stream, rule, scores, choice, weights);
  kernels::count_choices(stream, choice, counts);
  kernels::balance_sums(stream, score, scores, plain, sums);
  const double error = static_cast<double>(16 + E) * roundoff(dtype);
  probe.close(dtype, scores.values(), expected.scores_TE, error);
  probe.equal(choice.values(), expected.choice_TK);
  probe.close(dtype, weights.values(), expected.weights_TK, 2.5 * error);
  probe.equal(counts.values(), expected.load_E);
  probe.within({kernels::balance_loss(stream, sums, K, S)}, {expected.balance},
               {error * expected.balance});
  probe.within({kernels::router_z_loss(stream, logits, lse)}, {expected.z},
               {error * expected.z});
}

// T K choices of E experts; one in seven is -1: dropped.
Choice choices(std::int64_t count, std::int64_t E) {
  const Random random(5, 9);
  Choice choice;
  for (std::uint64_t i = 0; choice.size() < size(count); ++i) {
    const auto e =
        static_cast<std::int32_t>(static_cast<double>(E) * random.uniform(2 * i));
    choice.push_back(random.uniform(2 * i + 1) < 1.0 / 7 ? -1 : e);
  }
  return choice;
}

void check_sort(Probe& probe, std::int64_t E) {
  constexpr std::int64_t T = 86, K = 3, N = T * K;
  const Choice chosen = choices(N, E);
  const Integers choice = probe.integers({T, K}, chosen), rows = probe.integers({E});
  const Integers row = probe.integers({T, K});
  const Integers token = probe.integers({N}, Choice(size(N), -7));
  kernels::sort_by_expert(probe.stream(), choice, rows, row, token);
  Choice order, of_experts(size(E)), places(size(N), -1), tokens(size(N), -7);
  for (std::int32_t i = 0; i < N; ++i)
    if (chosen[size(i)] >= 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return chosen[size(a)] < chosen[size(b)];
  });
  for (std::size_t place = 0; place < order.size(); ++place) {
    places[size(order[place])] = static_cast<std::int32_t>(place);
    tokens[place] = order[place] / static_cast<std::int32_t>(K);
    ++of_experts[size(chosen[size(order[place])])];
  }
  probe.equal(rows.values(), of_experts);
  probe.equal(row.values(), places);
  probe.equal(token.values(), tokens);
}

// Rows of 3 ranks for 40 experts, in one exchange, and in rounds of 3 blocks of 4. Both
// orders are made here row by row.
void check_arrivals(Probe& probe) {
  constexpr std::int64_t P = 3, L = 40, block = 4, bound = 3 * block;
  const Choice rows = choices(P * L, 9);
  Choice counts;
  for (const std::int32_t count : rows) counts.push_back(std::max(count, 0));
  const Integers of_ranks = probe.integers({P, L}, counts);
  const Integers places = probe.integers({P, L + 1});
  kernels::place_arrivals(probe.stream(), of_ranks, bound, block, places);
  Choice first(size(P * (L + 1))), by_expert, by_place, arrived(size(P * L));
  std::int32_t all = 0, end = 0;
  for (std::int64_t i = 0; i < P * L; all += counts[size(i)], ++i) arrived[size(i)] = all;
  for (std::int64_t i = 0; i < P * L; ++i) {
    const std::int64_t p = i % P, l = i / P, count = counts[size(p * L + l)];
    while (end % bound + count > bound && (bound - end % bound) % block != 0) ++end;
    first[size(p * (L + 1) + l)] = end;
    for (std::int32_t r = 0; r < count; ++r) {
      by_expert.push_back(arrived[size(p * L + l)] + r);
      by_place.push_back(end++);
    }
  }
  for (std::int64_t p = 0; p < P; ++p) first[size(p * (L + 1) + L)] = end;
  probe.equal(places.values(), first);
  const Integers order = probe.integers({all});
  kernels::order_arrivals(probe.stream(), of_ranks, {}, {}, order);
  probe.equal(order.values(), by_expert);
  // Of a round the rows arrive in the order of all, without those of other rounds.
  const Range window{bound, 2 * bound};
  Choice now, sorted, ranks;
  for (std::size_t r = 0; r < by_place.size(); ++r)
    if (by_place[r] >= window.begin && by_place[r] < window.end)
      now.push_back(by_expert[r]);
  sorted = now;
  std::sort(sorted.begin(), sorted.end());
  for (const std::int32_t row : now)
    ranks.push_back(static_cast<std::int32_t>(
        std::lower_bound(sorted.begin(), sorted.end(), row) - sorted.begin()));
  const Integers of_round = probe.integers({static_cast<std::int64_t>(ranks.size())});
  kernels::order_arrivals(probe.stream(), of_ranks, places, window, of_round);
  probe.equal(of_round.values(), ranks);
}

// Sums of 3 terms, then of D.
void check_combine(Probe& probe, DType dtype, std::int64_t D) {
  const DType wide = accumulator_of(dtype);
  const Tensor rows = probe.normal(dtype, {5, D}, 1), dy = probe.normal(dtype, {3, D}, 2);
  const Tensor weights = probe.normal(wide, {3, 2}, 3),
               y = probe.normal(dtype, {3, D}, 4);
  const Tensor drows = probe.zeros(dtype, {5, D}), dweights = probe.zeros(wide, {3, 2});
  const Choice places{4, 0, -1, 2, 3, 1};
  const Integers row = probe.integers({3, 2}, places);
  Vector sum = y.values(), back(size(5 * D)), slopes(6);
  const Vector e = rows.values(), w = weights.values(), u = dy.values();
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t d = 0; places[i] >= 0 && d < size(D); ++d) {
      const std::size_t at = size(places[i]) * size(D) + d, to = i / 2 * size(D) + d;
      sum[to] += w[i] * e[at];
      back[at] = w[i] * u[to];
      slopes[i] += u[to] * e[at];
    }
  kernels::combine_rows(probe.stream(), rows, row, weights, kernels::Accumulate::yes, y);
  kernels::combine_rows_backward(probe.stream(), dy, rows, row, weights, drows, dweights);
  const double error = 16 * roundoff(wide);
  probe.close(dtype, y.values(), sum, error);
  probe.close(dtype, drows.values(), back, error);
  probe.close(wide, dweights.values(), slopes,
              roundoff(wide) * 8 * static_cast<double>(D));
}

}  // namespace

void check_router(Probe& probe, DType dtype) {
  for (const auto score : {RouterScore::softmax, RouterScore::sigmoid})
    for (const std::int64_t E : {5, 70})
      for (const bool biased : {false, true})
        check_routing(probe, dtype, score, E, biased);
}

void check_expert_rows(Probe& probe, DType dtype) {
  for (const std::int64_t E : {5, 300}) check_sort(probe, E);
  check_arrivals(probe);
  for (const std::int64_t D : {17, 1024}) {
    check_combine(probe, dtype, D);
    const Tensor x = probe.normal(dtype, {3, D}, 1, 8), y = probe.zeros(dtype, {4, D});
    const Tensor z = probe.zeros(dtype, {3, D}), back = probe.zeros(dtype, {3, D});
    const Integers some = probe.integers({4}, {2, 0, 2, 1});
    const Integers permutation = probe.integers({3}, {2, 0, 1});
    kernels::gather_rows(probe.stream(), x, some, y);
    kernels::scatter_rows(probe.stream(), x, permutation, z);
    kernels::gather_rows(probe.stream(), z, permutation, back);
    const Vector from = x.values();
    Vector gathered;
    for (const std::int64_t r : {2, 0, 2, 1})
      gathered.insert(gathered.end(), from.begin() + r * D, from.begin() + (r + 1) * D);
    probe.equal(y.values(), gathered);
    probe.equal(back.values(), from);
  }
}

// Sums of n products of order 1 err like a random walk: by about n roundings. Ragged
// tiles, experts with no row, with one, and with more than a tile.
void check_expert_products(Probe& probe, DType dtype) {
  const DType wide = accumulator_of(dtype);
  const Choice rows{0, 131, 1, 0, 40};
  constexpr std::int64_t E = 5, R = 172, I = 24, O = 40;
  const Tensor x = probe.normal(dtype, {R, I}, 1, 8), dy = probe.normal(dtype, {R, O}, 3);
  const Tensor w = probe.normal(dtype, {E * O, I}, 2), y = probe.zeros(dtype, {R, O}, 8);
  const Tensor dx = probe.zeros(dtype, {R, I}), dw = probe.zeros(wide, {E * O, I});
  kernels::grouped_linear(probe.stream(), rows, x, w, y);
  kernels::grouped_linear_input_gradient(probe.stream(), rows, dy, w, dx);
  kernels::grouped_linear_weight_gradient(probe.stream(), rows, dy, x, dw);
  const Buffer of_x = on_host(x), of_dy = on_host(dy), of_w = on_host(w);
  const Buffer of_y = on_host(y), of_dx = on_host(dx), of_dw = on_host(dw);
  using kernels::Transpose;
  Vector out, back, slopes;
  std::int64_t first = 0;
  const auto append = [](Vector& all, const Vector& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  for (std::int64_t e = 0; e < E; first += rows[size(e)], ++e) {
    const std::int64_t n = rows[size(e)];
    if (n == 0) {
      append(slopes, Vector(size(O * I)));
      continue;
    }
    const auto part = [&](const Buffer& of) { return of.view().rows(first, n); };
    const TensorView w_e = of_w.view().rows(e * O, O), dw_e = of_dw.view().rows(e * O, O);
    append(out,
           reference::gemm(part(of_y), part(of_x), Transpose::no, w_e, Transpose::yes));
    append(back,
           reference::gemm(part(of_dx), part(of_dy), Transpose::no, w_e, Transpose::no));
    append(slopes,
           reference::gemm(dw_e, part(of_dy), Transpose::yes, part(of_x), Transpose::no));
  }
  const auto error = [&](std::int64_t n) {
    return 8 * roundoff(wide) * static_cast<double>(n);
  };
  probe.close(dtype, y.values(), out, error(I));
  probe.close(dtype, dx.values(), back, error(O));
  probe.close(wide, dw.values(), slopes, error(R));
}

}  // namespace trireme::selftest
