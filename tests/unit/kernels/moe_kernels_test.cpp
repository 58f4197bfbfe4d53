// Router and expert rows against the double-precision reference and finite differences.
// SPDX-License-Identifier: Apache-2.0
// Ties, drops, and experts without rows are among the cases.
// Legend: T tokens, E experts, K experts of a token, N rows, D width.
#include <limits>
#include <numeric>

#include "kernels/moe.hpp"
#include "kernels/reference/gemm.hpp"
#include "kernels/reference/moe.hpp"
#include "kernels/router.hpp"
#include "unit/kernels/elementwise_tensors.hpp"
#include "unit/kernels/integers.hpp"

namespace trireme::test {
namespace {

using kernels::RouterScore;
using kernels::RouterWeights;
using Choice = std::vector<std::int32_t>;
namespace reference = kernels::reference;

constexpr RouterScore both_scores[] = {RouterScore::softmax, RouterScore::sigmoid};

// What lies on the device of the test, in the host's memory.
Buffer on_host(const TensorView& x) {
  Buffer host(Device::host(), x.dtype(), x.shape(), MemoryClass::data, "test");
  Stream stream(test_device());
  copy_bytes(stream, x, host.view());
  return host;
}

// A layer with one feature for each expert and the identity as router: x = logits.
reference::MoeResult routed(RouterScore score, const RouterWeights& weights,
                            std::int64_t E, std::int64_t K, std::int64_t S,
                            const Vector& logits, const Vector& bias = {}) {
  reference::MoeLayer layer;
  layer.tokens = static_cast<std::int64_t>(logits.size()) / E;
  layer.sequence = S;
  layer.hidden = E;
  layer.top_k = K;
  layer.score = score;
  layer.weights = weights;
  layer.bias_E = bias;
  layer.router_ED.resize(static_cast<std::size_t>(E * E));
  for (std::int64_t e = 0; e < E; ++e)
    layer.router_ED[static_cast<std::size_t>(e * E + e)] = 1;
  const auto width = static_cast<std::size_t>(E);
  layer.experts.assign(width, {Vector(width), Vector(width), Vector(width)});
  return reference::moe(layer, logits);
}

class RouterTest : public testing::TestWithParam<DType> {
 protected:
  // exp, a sum of E terms, a division or two.
  double error(std::int64_t E) const {
    return static_cast<double>(16 + E) * roundoff(GetParam());
  }
  Stream stream_{test_device()};
};
INSTANTIATE_TEST_SUITE_P(Types, RouterTest, testing::Values(DType::f64, DType::f32),
                         type_name);

TEST_P(RouterTest, MatchesReference) {
  const DType dtype = GetParam();
  for (const auto score : both_scores)
    for (const std::int64_t E : {2, 5, 16, 70})
      for (const std::int64_t K : {1, 2})
        for (const bool normalise : {false, true})
          for (const bool biased : {false, true}) {
            const std::int64_t T = 12, S = 4;
            const RouterWeights rule{normalise, 2.5};
            const Tensor logits = Tensor::normal(dtype, {T, E}, 1);
            const Tensor bias = Tensor::normal(dtype, {E}, 2);
            const auto expected = routed(score, rule, E, K, S, logits.values(),
                                         biased ? bias.values() : Vector{});
            const Tensor scores(dtype, {T, E}), weights(dtype, {T, K}), lse(dtype, {T});
            const Tensor counts(DType::f64, {E}), sums(dtype, {T / S, 2, E});
            const Integers choice({T, K}), plain({T, K});
            kernels::router_scores(stream_, score, logits, scores);
            kernels::choose_experts(stream_, scores, biased ? bias.view() : TensorView(),
                                    choice);
            kernels::choose_experts(stream_, scores, {}, plain);
            kernels::router_weights(stream_, rule, scores, choice, weights);
            kernels::count_choices(stream_, choice, counts);
            kernels::balance_sums(stream_, score, scores, plain, sums);
            const std::string what = format("E {} K {} {}", E, K, normalise);
            expect_close(dtype, scores.values(), expected.scores_TE, error(E), what);
            EXPECT_EQ(choice.values(), expected.choice_TK) << what;
            expect_close(dtype, weights.values(), expected.weights_TK, 2.5 * error(E),
                         what);
            EXPECT_EQ(counts.values(), expected.load_E);
            EXPECT_NEAR(kernels::balance_loss(stream_, sums, K, S), expected.balance,
                        error(E) * expected.balance);
            EXPECT_NEAR(kernels::router_z_loss(stream_, logits, lse), expected.z,
                        error(E) * expected.z);
            const Tensor sum(DType::f64, {1}, Vector{5.0});
            kernels::add_balance_loss(stream_, sums, K, S, 0.5, sum);
            EXPECT_NEAR(sum.values()[0], 5.0 + 0.5 * expected.balance,
                        error(E) * (5.0 + expected.balance));
            kernels::add_router_z_loss(stream_, logits, lse, -2.0, sum);
            EXPECT_NEAR(sum.values()[0], 5.0 + 0.5 * expected.balance - 2 * expected.z,
                        error(E) * (5.0 + expected.balance + 2 * expected.z));
          }
}

TEST(Router, TiesGoToTheLowerIndex) {
  Stream stream(test_device());
  const Tensor scores(DType::f32, {3, 4}, Vector{1, 2, 2, 1, 3, 3, 3, 3, 0, 0, 0, 1});
  const Integers choice({3, 3});
  kernels::choose_experts(stream, scores, {}, choice);
  EXPECT_EQ(choice.values(), (Choice{1, 2, 0, 0, 1, 2, 3, 0, 1}));
  const Tensor bias(DType::f32, {4}, Vector{0, 0, 1, 0});
  kernels::choose_experts(stream, scores, bias, choice);
  EXPECT_EQ(choice.values(), (Choice{2, 1, 0, 2, 0, 1, 2, 3, 0}));
}

// More experts than a warp has lanes: values 0, 1, 2, 0, 1, 2 and so on.
TEST(Router, TiesAmongManyExpertsGoToTheLowerIndex) {
  Stream stream(test_device());
  const std::int64_t E = 70;
  Vector values;
  Choice expected;
  for (std::int32_t e = 0; e < E; ++e) values.push_back(e % 3);
  for (const std::int32_t value : {2, 1, 0})
    for (std::int32_t e = value; e < E; e += 3) expected.push_back(e);
  const Integers choice({1, E});
  kernels::choose_experts(stream, Tensor(DType::f32, {1, E}, values), {}, choice);
  EXPECT_EQ(choice.values(), expected);
}

// Many and few experts in a group, equal scores, a bias, groups judged by 1 to 3 scores.
TEST_P(RouterTest, GroupsLimitTheChoice) {
  const DType dtype = GetParam();
  for (const std::int64_t E : {4, 12, 160})
    for (const std::int64_t groups : {1, 2, 4})
      for (const std::int64_t counted : {1, 2, 3})
        for (const bool biased : {false, true}) {
          const kernels::ExpertGroups rule{groups, (groups + 1) / 2, counted};
          const std::int64_t T = 9;
          const Tensor scores = Tensor::normal(dtype, {T, E}, 1);
          const Tensor bias = Tensor::normal(dtype, {E}, 2);
          const Tensor limited(dtype, {T, E});
          kernels::limit_to_groups(stream_, rule, scores,
                                   biased ? bias.view() : TensorView(), limited);
          Vector expected;
          const Vector raw = scores.values(), added = bias.values();
          for (std::size_t t = 0; t < static_cast<std::size_t>(T); ++t) {
            Vector row;
            for (std::size_t e = 0; e < static_cast<std::size_t>(E); ++e)
              row.push_back(raw[t * static_cast<std::size_t>(E) + e] +
                            (biased ? added[e] : 0.0));
            const Vector one = reference::limited_to_groups(rule, row);
            expected.insert(expected.end(), one.begin(), one.end());
          }
          const Vector got = limited.values();
          for (std::size_t i = 0; i < got.size(); ++i) {
            const double infinite = -std::numeric_limits<double>::infinity();
            if (expected[i] == infinite)
              EXPECT_EQ(got[i], infinite);
            else
              EXPECT_NEAR(got[i], expected[i], 8 * roundoff(dtype));
          }
        }
}

TEST(Router, OfEqualGroupsTheFirstIsUsed) {
  Stream stream(test_device());
  const double none = -std::numeric_limits<double>::infinity();
  const Tensor scores(DType::f64, {2, 6}, Vector{1, 2, 2, 1, 3, 0, 5, 5, 5, 5, 9, 1});
  const Tensor limited(DType::f64, {2, 6});
  kernels::limit_to_groups(stream, {3, 1, 2}, scores, {}, limited);
  EXPECT_EQ(limited.values(),
            (Vector{1, 2, none, none, none, none, 5, 5, none, none, none, none}));
  kernels::limit_to_groups(stream, {3, 1, 1}, scores, {}, limited);
  EXPECT_EQ(limited.values(),
            (Vector{none, none, none, none, 3, 0, none, none, none, none, 9, 1}));
}

// A gate of each token, as a row without a place of its own.
TEST(ExpertRows, RowsOfTokensAreScaled) {
  Stream stream(test_device());
  const std::int64_t T = 5, D = 19;
  for (const std::int64_t padding : {0, 3}) {
    const Tensor x = Tensor::normal(DType::f64, {T, D}, 1, padding);
    const Tensor dy = Tensor::normal(DType::f64, {T, D}, 2, padding);
    const Tensor w = Tensor::normal(DType::f64, {T, 1}, 3);
    const Tensor y(DType::f64, {T, D}, padding), dx(DType::f64, {T, D}, padding);
    const Tensor dw(DType::f64, {T, 1});
    kernels::combine_rows(stream, x, {}, w, kernels::Accumulate::no, y);
    kernels::combine_rows_backward(stream, dy, x, {}, w, dx, dw);
    const auto at = [&](const Tensor& of, std::int64_t t, std::int64_t d) {
      return of.values()[static_cast<std::size_t>(t * D + d)];
    };
    for (std::int64_t t = 0; t < T; ++t) {
      const double factor = w.values()[static_cast<std::size_t>(t)];
      double dot = 0;
      for (std::int64_t d = 0; d < D; ++d) {
        EXPECT_EQ(at(y, t, d), factor * at(x, t, d));
        EXPECT_EQ(at(dx, t, d), factor * at(dy, t, d));
        dot += at(dy, t, d) * at(x, t, d);
      }
      EXPECT_NEAR(dw.values()[static_cast<std::size_t>(t)], dot, 1e-14 * D);
    }
  }
}

TEST(Router, NotANumberStillChoosesLegally) {
  Stream stream(test_device());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor scores(DType::f64, {1, 3}, Vector{nan, nan, nan});
  const Integers choice({1, 3});
  kernels::choose_experts(stream, scores, {}, choice);
  EXPECT_EQ(choice.values(), (Choice{0, 1, 2}));
  // Nothing compares greater than a NaN that is found first, nor is a later one greater.
  const Tensor mixed(DType::f64, {2, 5}, Vector{1, nan, 3, nan, 2, nan, 5, 1, nan, 1});
  const Integers all({2, 5});
  kernels::choose_experts(stream, mixed, {}, all);
  EXPECT_EQ(all.values(), (Choice{2, 4, 0, 1, 3, 0, 1, 2, 3, 4}));
}

// From logits to weights and both losses, as the module composes them.
TEST(Router, BackwardIsTheDerivative) {
  Stream stream(test_device());
  const std::int64_t T = 6, E = 5, K = 2, S = 3;
  for (const auto score : both_scores)
    for (const bool normalise : {false, true}) {
      const RouterWeights rule{normalise, 1.5};
      const Tensor logits = Tensor::normal(DType::f64, {T, E}, 1);
      const Tensor scores(DType::f64, {T, E}), lse(DType::f64, {T});
      const Tensor sums(DType::f64, {T / S, 2, E}), dscores(DType::f64, {T, E});
      const Tensor dlogits(DType::f64, {T, E});
      const Integers choice({T, K});
      // Weights, then the losses as two more outputs.
      const auto outputs = [&](const Vector& values) {
        const Tensor x(DType::f64, {T, E}, values), w(DType::f64, {T, K});
        kernels::router_scores(stream, score, x, scores);
        kernels::choose_experts(stream, scores, {}, choice);
        kernels::router_weights(stream, rule, scores, choice, w);
        kernels::balance_sums(stream, score, scores, choice, sums);
        Vector all = w.values();
        all.push_back(kernels::balance_loss(stream, sums, K, S));
        all.push_back(kernels::router_z_loss(stream, x, lse));
        return all;
      };
      outputs(logits.values());
      const Tensor dweights = Tensor::normal(DType::f64, {T, K}, 3);
      Vector u = dweights.values();
      u.push_back(0.7);
      u.push_back(-0.3);
      kernels::router_weights_backward(stream, rule, scores, choice, dweights, dscores);
      kernels::balance_loss_backward(stream, score, scores, sums, K, S, 0.7, dscores);
      kernels::router_scores_backward(stream, score, scores, dscores, dlogits);
      kernels::router_z_loss_backward(stream, logits, lse, -0.3, dlogits);
      expect_derivative(outputs, logits.values(), u, dlogits.values(),
                        score == RouterScore::softmax ? "softmax" : "sigmoid");
      // Losses are added, the rest is written.
      const Vector once = dscores.values();
      kernels::balance_loss_backward(stream, score, scores, sums, K, S, -0.7, dscores);
      kernels::balance_loss_backward(stream, score, scores, sums, K, S, 0.7, dscores);
      expect_close(DType::f64, dscores.values(), once, 1e-14, "added");
    }
}

// An even load has loss 1 for every sequence: f_e = 1, and P sums to 1.
TEST(Router, EvenLoadHasBalanceLossOne) {
  Stream stream(test_device());
  const Tensor scores(DType::f64, {4, 2}, Vector{0.6, 0.4, 0.4, 0.6, 0.9, 0.1, 0.1, 0.9});
  const Tensor sums(DType::f64, {2, 2, 2});
  const Integers choice({4, 1}, {0, 1, 0, 1});
  kernels::balance_sums(stream, RouterScore::softmax, scores, choice, sums);
  EXPECT_DOUBLE_EQ(kernels::balance_loss(stream, sums, 1, 2), 2.0);
}

TEST(Router, CapacityDropsLaterPositions) {
  Stream stream(test_device());
  const Integers choice({6, 2}, {0, 1, 0, 2, 0, 1, 0, 2, 1, 0, 2, 0}), kept({6, 2});
  kernels::limit_choices(stream, choice, 3, 3, 2, kept);
  EXPECT_EQ(kept.values(), (Choice{0, 1, 0, 2, -1, 1, 0, 2, 1, 0, 2, -1}));
  kernels::limit_choices(stream, choice, 3, 3, 0, kept);
  EXPECT_EQ(kept.values(), Choice(12, -1));
}

// T K choices of E experts; with `drops` one in seven is -1.
Choice random_choices(std::int64_t count, std::int64_t E, bool drops) {
  const Random random(5, 9);
  Choice choice;
  for (std::uint64_t i = 0; choice.size() < static_cast<std::size_t>(count); ++i) {
    const auto e = static_cast<std::int32_t>(double(E) * random.uniform(2 * i));
    choice.push_back(drops && random.uniform(2 * i + 1) < 1.0 / 7 ? -1 : e);
  }
  return choice;
}

// Few and many experts, sequences shorter and longer than what a warp takes at once.
TEST(Router, CapacityHoldsInTheOrderOfPositions) {
  Stream stream(test_device());
  for (const std::int64_t E : {3, 300, 5000, 13000})
    for (const std::int64_t S : {5, 400}) {
      const std::int64_t T = 2 * S, K = 3, capacity = E == 3 ? S / 2 : 1;
      const Integers choice({T, K}, random_choices(T * K, E, false)), kept({T, K});
      kernels::limit_choices(stream, choice, E, S, capacity, kept);
      Choice expected = choice.values();
      Choice used(static_cast<std::size_t>(E));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (i % static_cast<std::size_t>(S * K) == 0) used.assign(used.size(), 0);
        if (used[static_cast<std::size_t>(expected[i])]++ >= capacity) expected[i] = -1;
      }
      EXPECT_EQ(kept.values(), expected) << E << " experts, sequences of " << S;
    }
}

// A sequence in several parts; counts are added, sums written.
TEST_P(RouterTest, CountsAndSumsOfLongSequences) {
  const DType dtype = GetParam();
  const std::int64_t T = 600, E = 40, K = 3, B = 2;
  const Integers choice({T, K}, random_choices(T * K, E, false));
  const Choice chosen = choice.values();
  Vector positive(static_cast<std::size_t>(T * E));
  for (std::size_t i = 0; i < positive.size(); ++i)
    positive[i] = Random(5, 10).uniform(i);
  const Tensor scores(dtype, {T, E}, positive, 3);
  positive = scores.values();
  for (const auto kind : both_scores) {
    const Tensor sums = Tensor::normal(dtype, {B, 2, E}, 5);
    kernels::balance_sums(stream_, kind, scores, choice, sums);
    Vector expected(static_cast<std::size_t>(B * 2 * E));
    for (std::int64_t t = 0; t < T; ++t) {
      const double* const s = &positive[static_cast<std::size_t>(t * E)];
      double* const count = &expected[static_cast<std::size_t>(t / (T / B) * 2 * E)];
      const double sum = std::accumulate(s, s + E, 0.0);
      for (std::int64_t k = 0; k < K; ++k)
        count[chosen[static_cast<std::size_t>(t * K + k)]] += 1;
      for (std::int64_t e = 0; e < E; ++e)
        count[E + e] += kind == RouterScore::softmax ? s[e] : s[e] / sum;
    }
    // Sums of T / B positive terms, each off by a few roundings and a sum of E.
    const double error = roundoff(dtype) * double(T / B + E + 8);
    expect_close(dtype, sums.values(), expected, error * largest(expected), "sums");
  }
  const Tensor counts(DType::f64, {E}, Vector(static_cast<std::size_t>(E), 10.0));
  kernels::count_choices(stream_, choice, counts);
  Vector expected(static_cast<std::size_t>(E), 10.0);
  for (const auto e : chosen) expected[static_cast<std::size_t>(e)] += 1;
  EXPECT_EQ(counts.values(), expected);
}

TEST(ExpertRows, SortIsStableForManyPairs) {
  Stream stream(test_device());
  for (const std::int64_t E : {1, 5, 300})
    for (const std::int64_t T : {0, 10, 86, 500}) {
      const std::int64_t K = 3, N = T * K;
      const Choice chosen = random_choices(N, E, true);
      const Integers choice({T, K}, chosen);
      const Integers rows({E}, Choice(static_cast<std::size_t>(E), -5));
      const Integers row({T, K}), token({N}, Choice(static_cast<std::size_t>(N), -7));
      kernels::sort_by_expert(stream, choice, rows, row, token);
      Choice order, expected_rows(static_cast<std::size_t>(E));
      for (std::int32_t i = 0; i < N; ++i)
        if (chosen[static_cast<std::size_t>(i)] >= 0) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return chosen[static_cast<std::size_t>(a)] < chosen[static_cast<std::size_t>(b)];
      });
      Choice expected_row(static_cast<std::size_t>(N), -1);
      Choice expected_token(static_cast<std::size_t>(N), -7);
      for (std::size_t place = 0; place < order.size(); ++place) {
        const auto i = static_cast<std::size_t>(order[place]);
        expected_row[i] = static_cast<std::int32_t>(place);
        expected_token[place] = order[place] / 3;
        ++expected_rows[static_cast<std::size_t>(chosen[i])];
      }
      EXPECT_EQ(rows.values(), expected_rows) << E << " experts, " << T << " tokens";
      EXPECT_EQ(row.values(), expected_row) << E << " experts, " << T << " tokens";
      EXPECT_EQ(token.values(), expected_token) << E << " experts, " << T << " tokens";
    }
}

TEST(ExpertRows, SortIsStableAndSkipsDrops) {
  Stream stream(test_device());
  const Integers choice({4, 2}, {2, 0, -1, 2, 0, 2, -1, -1});
  const Integers rows({4}), row({4, 2}), token({8}, Choice(8, -7));
  kernels::sort_by_expert(stream, choice, rows, row, token);
  EXPECT_EQ(rows.values(), (Choice{2, 0, 3, 0}));
  EXPECT_EQ(row.values(), (Choice{2, 0, -1, 3, 1, 4, -1, -1}));
  EXPECT_EQ(token.values(), (Choice{0, 2, 0, 1, 2, -7, -7, -7}));
}

class ExpertRowsTest : public testing::TestWithParam<DType> {
 protected:
  Stream stream_{test_device()};
};
INSTANTIATE_TEST_SUITE_P(Types, ExpertRowsTest, every_type, type_name);

// Widths and paddings at which rows move by 2, 4, 8 and 16 bytes.
TEST_P(ExpertRowsTest, GatherAndScatterMoveRows) {
  const DType dtype = GetParam();
  for (const std::int64_t D : {1, 2, 4, 7, 8, 32, 1024})
    for (const std::int64_t padding : {1, 2, 4, 8}) {
      const Tensor x = Tensor::normal(dtype, {3, D}, 1, padding), y(dtype, {4, D}, 8);
      kernels::gather_rows(stream_, x, Indices({2, 0, 2, 1}), y);
      const Vector from = x.values(), to = y.values();
      const auto width = static_cast<std::size_t>(D);
      for (std::size_t r = 0; const std::size_t i : {2, 0, 2, 1}) {
        for (std::size_t d = 0; d < width; ++d)
          ASSERT_EQ(to[r * width + d], from[i * width + d]);
        ++r;
      }
      const Tensor z(dtype, {3, D}), back(dtype, {3, D});
      const Indices permutation({2, 0, 1});
      kernels::scatter_rows(stream_, x, permutation, z);
      kernels::gather_rows(stream_, z, permutation, back);
      EXPECT_EQ(back.values(), from);
      EXPECT_TRUE(y.padding_is_intact());
    }
}

// Against loops; 300 columns are more than one block, and from 1024 on rows are aligned.
// Sums of 3 terms, then D terms.
TEST_P(ExpertRowsTest, CombineMatchesReference) {
  const DType dtype = GetParam(), wide = accumulator_of(dtype);
  for (const std::int64_t D : {1, 17, 300, 1024, 2056})
    for (const auto accumulate : {kernels::Accumulate::no, kernels::Accumulate::yes}) {
      const std::size_t width = static_cast<std::size_t>(D);
      const Tensor rows = Tensor::normal(dtype, {5, D}, 1),
                   dy = Tensor::normal(dtype, {3, D}, 2, D < 1024 ? 1 : 8);
      const Tensor weights = Tensor::normal(wide, {3, 2}, 3);
      const Tensor y = Tensor::normal(dtype, {3, D}, 4, D < 1024 ? 2 : 8);
      const Choice places{4, 0, -1, 2, 3, 1};
      const Integers row({3, 2}, places);
      Vector expected =
          accumulate == kernels::Accumulate::yes ? y.values() : Vector(3 * width);
      Vector drows_expected(5 * width), dw_expected(6);
      const Vector e = rows.values(), w = weights.values(), u = dy.values();
      for (std::size_t i = 0; i < 6; ++i)
        for (std::size_t d = 0; places[i] >= 0 && d < width; ++d) {
          const std::size_t at = static_cast<std::size_t>(places[i]) * width + d;
          expected[i / 2 * width + d] += w[i] * e[at];
          drows_expected[at] = w[i] * u[i / 2 * width + d];
          dw_expected[i] += u[i / 2 * width + d] * e[at];
        }
      const Tensor drows(dtype, {5, D}), dweights(wide, {3, 2});
      kernels::combine_rows(stream_, rows, row, weights, accumulate, y);
      const double error = 16 * roundoff(wide);
      expect_close(dtype, y.values(), expected, error, format("D = {}", D));
      for (int twice = 0; twice < 2; ++twice) {
        kernels::combine_rows_backward(stream_, dy, rows, row, weights, drows, dweights);
        expect_close(dtype, drows.values(), drows_expected, error, "drows");
        expect_close(wide, dweights.values(), dw_expected,
                     roundoff(wide) * 8 * static_cast<double>(D), "dweights");
      }
      EXPECT_TRUE(y.padding_is_intact());
    }
}

TEST(ExpertRows, CombineWithoutWeightsIsTheAdjointOfGather) {
  Stream stream(test_device());
  const Integers choice({4, 2}, {2, 0, -1, 2, 0, 2, -1, -1});
  const Integers rows({3}), row({4, 2}), token({8});
  kernels::sort_by_expert(stream, choice, rows, row, token);
  const std::int64_t N = 5, D = 3;
  const Tensor x = Tensor::normal(DType::f64, {4, D}, 1), y(DType::f64, {N, D});
  const Tensor u = Tensor::normal(DType::f64, {N, D}, 2), dx(DType::f64, {4, D});
  kernels::gather_rows(stream, x, token.view().rows(0, N), y);
  kernels::combine_rows(stream, u, row, {}, kernels::Accumulate::no, dx);
  EXPECT_NEAR(dot(y.values(), u.values()), dot(x.values(), dx.values()), 1e-13);
}

// `padding` columns lie on both sides of every row.
void expect_grouped_products(DType dtype, const std::vector<std::int32_t>& rows,
                             std::int64_t I, std::int64_t O, std::int64_t padding) {
  using kernels::Transpose;
  Stream stream(test_device());
  const DType wide = accumulator_of(dtype);
  const auto R = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const auto E = static_cast<std::int64_t>(rows.size());
  const std::string what =
      format("R = {}, I = {}, O = {}, E = {}, padding = {}, ", R, I, O, E, padding);
  const Tensor x = Tensor::normal(dtype, {R, I}, 1, padding),
               w = Tensor::normal(dtype, {E * O, I}, 2, padding);
  const Tensor dy = Tensor::normal(dtype, {R, O}, 3, padding);
  const Tensor y(dtype, {R, O}, padding), dx(dtype, {R, I}, padding);
  const Tensor dw = Tensor::normal(wide, {E * O, I}, 4, padding);
  const Vector before = dw.values();
  kernels::grouped_linear(stream, rows, x, w, y);
  kernels::grouped_linear_input_gradient(stream, rows, dy, w, dx);
  kernels::grouped_linear_weight_gradient(stream, rows, dy, x, dw);
  const Buffer host_x = on_host(x), host_dy = on_host(dy), host_w = on_host(w);
  const auto like = [](const Shape& shape, DType type) {
    return Buffer(Device::host(), type, shape, MemoryClass::data, "test");
  };
  Vector expected_y, expected_dx, expected_dw = before;
  std::int64_t first = 0;
  for (std::int64_t e = 0; e < E; ++e) {
    const std::int64_t n = rows[static_cast<std::size_t>(e)];
    if (n == 0) continue;
    const TensorView x_e = host_x.view().rows(first, n);
    const TensorView dy_e = host_dy.view().rows(first, n);
    const TensorView w_e = host_w.view().rows(e * O, O);
    const Buffer y_e = like({n, O}, dtype), dx_e = like({n, I}, dtype);
    const Buffer dw_e = like({O, I}, wide);
    const TensorView &as_y = y_e.view(), &as_x = dx_e.view(), &as_w = dw_e.view();
    const auto add = [](Vector& all, const Vector& some) {
      all.insert(all.end(), some.begin(), some.end());
    };
    add(expected_y, reference::gemm(as_y, x_e, Transpose::no, w_e, Transpose::yes));
    add(expected_dx, reference::gemm(as_x, dy_e, Transpose::no, w_e, Transpose::no));
    const Vector d = reference::gemm(as_w, dy_e, Transpose::yes, x_e, Transpose::no);
    for (std::size_t i = 0; i < d.size(); ++i)
      expected_dw[static_cast<std::size_t>(e * O * I) + i] += d[i];
    first += n;
  }
  // Sums of n products of order 1 err like a random walk: by about n roundings.
  const auto error = [&](std::int64_t n) {
    return 8 * roundoff(wide) * static_cast<double>(std::max<std::int64_t>(n, 8));
  };
  expect_close(dtype, y.values(), expected_y, error(I), what + "y");
  expect_close(dtype, dx.values(), expected_dx, error(O), what + "dx");
  expect_close(wide, dw.values(), expected_dw, error(R), what + "dw");
  for (const Tensor* written : {&y, &dx, &dw})
    EXPECT_TRUE(written->padding_is_intact()) << what;
}

TEST_P(ExpertRowsTest, GroupedProductsMatchOneProductAnExpert) {
  expect_grouped_products(GetParam(), {3, 0, 5, 0}, 6, 10, 0);
  // Widths of whole packs: on a GPU one launch. Tiles with ragged ends, experts with less
  // than a tile, an odd number of rows, and more steps of K than are held at once.
  expect_grouped_products(GetParam(), {0, 131, 1, 0, 40}, 8, 136, 0);
  expect_grouped_products(GetParam(), {2, 37}, 200, 24, 8);
}

TEST_P(ExpertRowsTest, GroupedProductsOfMoreExpertsThanALaunchTakes) {
  std::vector<std::int32_t> rows(300);
  for (std::size_t e = 0; e < rows.size(); ++e) rows[e] = e % 7 == 0 ? 0 : 1;
  expect_grouped_products(GetParam(), rows, 8, 8, 0);
}

TEST_P(ExpertRowsTest, GroupedProductsTwiceGiveTheSameBits) {
  const DType dtype = GetParam();
  const std::vector<std::int32_t> rows = {9, 70};
  const Tensor x = Tensor::normal(dtype, {79, 72}, 1), y(dtype, {79, 16});
  const Tensor w = Tensor::normal(dtype, {32, 72}, 2);
  kernels::grouped_linear(stream_, rows, x, w, y);
  const Vector once = y.values();
  kernels::grouped_linear(stream_, rows, x, w, y);
  EXPECT_EQ(y.values(), once);
  const std::vector<std::int32_t> short_of_one = {9, 69};
  EXPECT_THROW(kernels::grouped_linear(stream_, short_of_one, x, w, y), Error);
}

}  // namespace
}  // namespace trireme::test
