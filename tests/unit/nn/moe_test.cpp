// A whole mixture of experts on one rank against the reference and finite differences.
// SPDX-License-Identifier: Apache-2.0
// It runs twice, for = and +=; with capacity, ties, unused experts, and a choice bias.
#include "nn/moe.hpp"

#include <algorithm>
#include <cmath>

#include "comm/meta_group.hpp"
#include "kernels/reference/moe.hpp"
#include "unit/nn/moe_case.hpp"

namespace trireme::test {
namespace {

using kernels::RouterScore;
constexpr std::int64_t B = 2, S = 6;

// One rank alone.
struct Alone {
  std::unique_ptr<comm::Group> group = comm::make_meta_group("tensor", 0, 1);
  parallel::TensorRegion region{*group, false};
};

struct OneRank : Alone, MoeCase {
  explicit OneRank(const nn::MoeConfig& config, DType dtype = DType::f64)
      : MoeCase(config, region, {}, dtype, S, {0, B}, B) {}
};

std::vector<nn::MoeConfig> configs() {
  auto mixtral = moe_config(5, 2);
  auto full = moe_config(6, 3);
  full.router = RouterScore::sigmoid;
  full.shared_feed_forward = 9;
  full.scaling = 1.7;
  full.choice_bias = true;
  full.aux_loss = 0.3;
  full.z_loss = 0.2;
  auto raw = moe_config(4, 1);
  raw.normalise = false;
  raw.aux_loss = 0.3;
  raw.capacity_factor = 0.7;
  auto gated = moe_config(6, 2);
  gated.shared_feed_forward = 5;
  gated.shared_gate = "moe.shared_gate";
  gated.groups = {3, 2, 2};
  gated.choice_bias = true;
  gated.aux_loss = 0.2;
  auto biased = moe_config(5, 2);
  biased.activation = kernels::Activation::clamped_swiglu;
  biased.expert_names.biases = true;
  biased.z_loss = 0.2;
  auto ungated = biased;
  ungated.activation = kernels::Activation::gelu;
  ungated.router = RouterScore::sigmoid;
  ungated.shared_feed_forward = 4;
  std::vector<nn::MoeConfig> all = {mixtral, full, raw, gated, biased, ungated};
  for (std::size_t i = 0; i < kernels::activations.size(); ++i) {
    auto& other = all.emplace_back(moe_config(5, 2));
    other.activation = static_cast<kernels::Activation>(i);
    other.shared_feed_forward = 4;
  }
  return all;
}

void set_bias(nn::Moe& moe) {
  std::vector<StateTensor*> states;
  moe.collect(states);
  for (StateTensor* state : states)
    for (std::int64_t e = 0; e < state->value.elements(); ++e)
      state->value.data<double>()[e] =
          0.3 * initial("bias", static_cast<std::uint64_t>(e));
}

kernels::reference::MoeLayer layer_of(OneRank& one) {
  const auto& c = one.config;
  const Tensors w = one.weights();
  kernels::reference::MoeLayer layer;
  layer.tokens = B * S;
  layer.sequence = S;
  layer.hidden = c.hidden;
  layer.top_k = c.top_k;
  if (c.capacity_factor > 0)
    layer.capacity = static_cast<std::int64_t>(
        std::ceil(c.capacity_factor * static_cast<double>(S * c.top_k) /
                  static_cast<double>(c.experts)));
  layer.score = c.router;
  layer.weights = {c.normalise, c.scaling};
  layer.router_ED = w.at("moe.gate.weight");
  layer.activation = c.activation;
  const bool gated = kernels::row_of(c.activation).gated;
  const auto gate_of = [&](const std::string& name) {
    EXPECT_EQ(w.contains(name), gated) << name;
    return gated ? w.at(name) : Values();
  };
  if (c.expert_names.biases) layer.logit_bias_E = w.at("moe.gate.bias");
  for (std::int64_t e = 0; e < c.experts; ++e) {
    const std::string at = "moe.experts." + std::to_string(e);
    auto& expert = layer.experts.emplace_back();
    expert = {gate_of(at + ".w1.weight"), w.at(at + ".w3.weight"),
              w.at(at + ".w2.weight")};
    if (!c.expert_names.biases) continue;
    expert.gate_F = gate_of(at + ".w1.bias");
    expert.up_F = w.at(at + ".w3.bias");
    expert.down_D = w.at(at + ".w2.bias");
  }
  if (c.shared_feed_forward > 0)
    layer.shared = {gate_of("moe.shared.gate_proj.weight"),
                    w.at("moe.shared.up_proj.weight"),
                    w.at("moe.shared.down_proj.weight")};
  if (!c.shared_gate.empty()) layer.shared_gate_D = w.at("moe.shared_gate.weight");
  layer.groups = c.groups;
  std::vector<StateTensor*> states;
  one.moe.collect(states);
  for (StateTensor* state : states) layer.bias_E = MoeCase::values(state->value);
  return layer;
}

// Sums of at most 10 products, three deep: k eps sqrt(n) with k = 64.
TEST(Moe, ForwardMatchesReference) {
  for (const auto& config : configs()) {
    OneRank one(config);
    set_bias(one.moe);
    const auto layer = layer_of(one);
    const auto expected = kernels::reference::moe(layer, MoeCase::values(one.x));
    one.forward();
    const Values y = MoeCase::values(one.y), residual = MoeCase::values(one.residual);
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], residual[i] + expected.y_TD[i], 64 * 1.2e-16 * 10);
    if (config.aux_loss > 0) {
      EXPECT_NEAR(one.balance(), expected.balance, 1e-13);
    }
    if (config.z_loss > 0) {
      EXPECT_NEAR(one.z(), expected.z, 1e-12);
    }
    one.backward();
    EXPECT_EQ(MoeCase::values(one.moe.load()), expected.load_E);
    const Values losses = MoeCase::values(one.moe.losses());
    EXPECT_NEAR(losses[0], config.aux_loss * one.balance() / B, 1e-15);
    EXPECT_NEAR(losses[1], config.z_loss * one.z() / (B * S), 1e-15);
  }
}

// Central differences along a random direction of the input and of each Param. With h =
// 1e-5 the error is O(h^2) + O(eps objective / h), about 1e-9 of the derivative's size.
TEST(Moe, BackwardIsTheDerivative) {
  for (const auto& config : configs()) {
    OneRank one(config);
    set_bias(one.moe);
    one.objective();
    one.backward();
    const auto check = [&](const TensorView& value, const Values& gradient,
                           const std::string& name) {
      const Random random(23, hash_name(name));
      const auto data = value.span<double>();
      const Values before(data.begin(), data.end());
      double expected = 0, size = 0;
      for (std::size_t i = 0; i < data.size(); ++i) {
        expected += gradient[i] * random.normal(i);
        size += gradient[i] * gradient[i];
      }
      const auto shifted = [&](double h) {
        for (std::size_t i = 0; i < data.size(); ++i)
          data[i] = before[i] + h * random.normal(i);
        return one.objective();
      };
      constexpr double h = 1e-5;
      const double quotient = (shifted(h) - shifted(-h)) / (2 * h);
      shifted(0);
      EXPECT_GT(size, 0) << name;
      EXPECT_NEAR(quotient, expected, 1e-6 * std::sqrt(size)) << name;
    };
    check(one.x, MoeCase::values(one.dx), "x");
    for (Param* param : one.params)
      check(param->value, MoeCase::values(param->gradient), param->name);
  }
}

TEST(Moe, BackwardWritesInputGradientsAndAddsWeightGradients) {
  for (const auto& config : configs()) {
    OneRank one(config);
    one.forward();
    one.backward();
    const Values dx = MoeCase::values(one.dx);
    const Tensors once = one.gradients();
    one.backward();
    EXPECT_EQ(MoeCase::values(one.dx), dx);
    for (const auto& [name, gradient] : one.gradients())
      for (std::size_t i = 0; i < gradient.size(); ++i)
        ASSERT_NEAR(gradient[i], 2 * once.at(name)[i], 1e-13) << name;
  }
}

// Recomputation: a second forward leaves the same, and counts nothing.
TEST(Moe, ForwardCanRunAgain) {
  for (const auto& config : configs()) {
    OneRank one(config);
    one.forward();
    const Values y = MoeCase::values(one.y);
    one.forward();
    EXPECT_EQ(MoeCase::values(one.y), y);
    one.backward();
    double sum = 0;
    for (const double tokens : MoeCase::values(one.moe.load())) sum += tokens;
    EXPECT_EQ(sum, static_cast<double>(B * S * config.top_k));
  }
}

TEST(Moe, EveryTypeIsCloseToDouble) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    // One expert is far ahead, so that rounding cannot change the choice.
    auto config = moe_config(3, 1);
    config.shared_feed_forward = 4;
    OneRank exact(config), rounded(config, dtype);
    for (OneRank* one : {&exact, &rounded}) {
      const TensorView& router = one->params.front()->value;
      visit_floating(router.dtype(), [&]<class T>(T) {
        for (std::int64_t i = 0; i < router.elements(); ++i)
          router.data<T>()[i] = T(Accumulator<T>(i / config.hidden == 1 ? 0.125 : 0));
      });
      one->forward();
      one->backward();
    }
    const double eps = dtype == DType::f32 ? 6e-8 : dtype == DType::f16 ? 5e-4 : 4e-3;
    const Values a = MoeCase::values(exact.y), b = MoeCase::values(rounded.y);
    const Values u = MoeCase::values(exact.dx), v = MoeCase::values(rounded.dx);
    // Errors of inputs, weights and five roundings of values up to 4.
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 64 * eps);
    for (std::size_t i = 0; i < u.size(); ++i) EXPECT_NEAR(u[i], v[i], 64 * eps);
  }
}

TEST(Moe, DroplessLosesNoTokenAndCapacityDropsSome) {
  auto config = moe_config(4, 2);
  OneRank all(config);
  all.forward();
  EXPECT_EQ(all.views.route.rows, B * S * 2);
  // Everyone chooses experts 0 and 1 alike: the capacity is ceil(1.1 * 6 * 2 / 4) = 4.
  config.capacity_factor = 1.1;
  OneRank some(config);
  kernels::fill(*std::make_unique<Stream>(), some.params.front()->value, 0.0);
  some.forward();
  EXPECT_EQ(some.views.route.rows, B * 4 * 2);
  // The last two positions of a sequence pass the experts by.
  const Values y = MoeCase::values(some.y), residual = MoeCase::values(some.residual);
  const auto D = static_cast<std::size_t>(config.hidden);
  for (std::size_t t = 0; t < static_cast<std::size_t>(B * S); ++t)
    EXPECT_EQ(y[t * D] == residual[t * D], t % S >= 4) << t;
  // ceil(0.5 * 6 * 2 / 4) = 2 tokens for each of 4 experts and 2 sequences: 16 rows
  // of 24.
  config.capacity_factor = 0.5;
  EXPECT_LT(OneRank(config).saved_bytes, all.saved_bytes);
}

TEST(Moe, UnusedExpertsHaveNoGradientButReport) {
  auto config = moe_config(4, 1);
  OneRank one(config);
  kernels::fill(*std::make_unique<Stream>(), one.params.front()->value, 0.0);
  one.forward();
  one.backward();
  EXPECT_EQ(MoeCase::values(one.moe.load()), (Values{B * S, 0, 0, 0}));
  for (const auto& [name, gradient] : one.gradients()) {
    double size = 0;
    for (const double x : gradient) size += std::abs(x);
    const bool used = name.starts_with("moe.experts.0");
    if (name.starts_with("moe.experts")) {
      EXPECT_EQ(size > 0, used) << name;
    }
  }
}

TEST(Moe, BiasMovesAgainstTheLoad) {
  auto config = moe_config(4, 1);
  config.choice_bias = true;
  config.bias_update_rate = 0.125;
  OneRank one(config);
  std::vector<StateTensor*> states;
  one.moe.collect(states);
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0]->named.tensor, "moe.gate.e_score_correction_bias");
  const Values load{5, 1, 3, 3};
  std::copy(load.begin(), load.end(), one.moe.load().data<double>());
  one.moe.update_bias();
  EXPECT_EQ(MoeCase::values(states[0]->value), (Values{-0.125, 0.125, 0, 0}));
  one.moe.clear_step();
  EXPECT_EQ(MoeCase::values(one.moe.load()), Values(4, 0.0));
  // A bias above every difference of scores takes all tokens along.
  for (std::int64_t e = 0; e < 4; ++e)
    states[0]->value.data<double>()[e] = e == 2 ? 9 : 0;
  one.forward();
  one.backward();
  EXPECT_EQ(MoeCase::values(one.moe.load()), (Values{0, 0, B * S, 0}));
}

TEST(Moe, ManyStepsAllocateNothing) {
  OneRank one(configs()[1]);
  one.forward();
  one.backward();
  const auto before = memory_allocations();
  for (int i = 0; i < 3; ++i) {
    one.forward();
    one.backward();
  }
  EXPECT_EQ(memory_allocations(), before);
}

}  // namespace
}  // namespace trireme::test
