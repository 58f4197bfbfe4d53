// Parameter groups: what a group gives holds; SGD keeps no state that it does not need.
// SPDX-License-Identifier: Apache-2.0
// It holds whatever the run's values and the default rule for norms and biases say.
#include "optim/parameter_groups.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "optim/learning_rate.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {
namespace {

constexpr std::int64_t elements = 32;

// A matrix and a norm, on this process alone.
struct Model {
  comm::Mesh mesh = comm::Mesh::meta({}, 0);
  Param matrix, norm;
  OptimizerConfig config;
  std::optional<ParameterStore> store;

  static Param param(const std::string& name, bool decay) {
    Param p;
    p.name = name;
    p.shape = {elements};
    p.boxes = {{name, p.shape, {0}, {0}, p.shape}};
    p.initializer = {Initializer::Kind::ones};
    p.decay = decay;
    return p;
  }

  Model(const OptimizerConfig& optimizer, const std::vector<std::string>& groups,
        const char* recipe = "fp64")
      : matrix(param("layer.weight", true)),
        norm(param("norm.weight", false)),
        config(optimizer) {
    for (const std::string& group : groups) config.groups.push_back(parse_group(group));
    for (Param* p : {&matrix, &norm}) apply_groups(config, *p);
    StoreConfig of_store;
    of_store.recipe = recipe_named(recipe);
    of_store.rule = &config.rule();
    store.emplace(std::vector<ParamModule>{{"m", {&matrix, &norm}}}, of_store, mesh,
                  Device::host());
    store->initialize(1);
  }

  // One update with a gradient of 1 everywhere.
  void update(std::int64_t step) {
    store->begin_step(1);
    store->open_gradients(0);
    for (Param* p : {&matrix, &norm}) {
      if (p->frozen) continue;
      visit_floating(p->gradient.dtype(), [&]<class T>(T) {
        for (T& x : p->gradient.span<T>()) x = T(1);  // they start from zero
      });
      store->ready(*p);
    }
    store->close_gradients(0);
    store->finish_gradients();
    store->update(config, {.learning_rate = learning_rate(config, step),
                           .schedule = schedule_factor(config, step),
                           .update = step});
  }

  double weight(const std::string& name) {
    for (const StateBox& box : store->state_boxes())
      if (box.section == "model" && box.named->tensor == name)
        return box.data.dtype() == DType::f64 ? box.data.data<double>()[3]
                                              : double{box.data.data<float>()[3]};
    return std::nan("");
  }
};

// SGD without momentum from weights of 1: w = 1 - rate (decay + 1) after one step.
double sgd(double rate, double decay) { return 1 - rate * (decay + 1); }

OptimizerConfig plain(double rate, double decay) {
  OptimizerConfig config;
  config.name = "sgd";
  config.beta1 = 0;
  config.learning_rate = rate;
  config.weight_decay = decay;
  return config;
}

void expect_weights(double rate, double decay, const std::vector<std::string>& groups,
                    double matrix, double norm) {
  SCOPED_TRACE(format("rate {}, decay {}, {} groups", rate, decay, groups.size()));
  Model model(plain(rate, decay), groups);
  model.update(1);
  EXPECT_NEAR(model.weight("layer.weight"), matrix, 1e-15);
  EXPECT_NEAR(model.weight("norm.weight"), norm, 1e-15);
}

TEST(ParameterGroups, StarsFitAnything) {
  for (const char* pattern : {"*", "a*", "*a", "*b*", "ab*ba", "a*b*b*a", "**", "*bb*a"})
    EXPECT_TRUE(matches(pattern, "abba")) << pattern;
  for (const char* pattern : {"", "b*", "*b", "abb*bba", "a*c*a", "*bb*b", "abba*a"})
    EXPECT_FALSE(matches(pattern, "abba")) << pattern;
  EXPECT_TRUE(matches("*", ""));
  EXPECT_FALSE(matches("a", ""));
  // In a time that does not grow with the number of ways.
  const std::string name(200, 'a');
  EXPECT_FALSE(matches(std::string(100, '*') + "a*a*a*a*a*a*a*a*a*a*b", name));
}

TEST(ParameterGroups, WhatAGroupGivesHolds) {
  expect_weights(0.1, 0.5, {}, sgd(0.1, 0.5), sgd(0.1, 0));
  // A decay for norms and biases, also among others, and none.
  expect_weights(0.1, 0.5, {"norm.* weight_decay=0.25"}, sgd(0.1, 0.5), sgd(0.1, 0.25));
  expect_weights(0.1, 0.5, {"* weight_decay=0.25"}, sgd(0.1, 0.25), sgd(0.1, 0.25));
  expect_weights(0.1, 0.5, {"* weight_decay=0"}, sgd(0.1, 0), sgd(0.1, 0));
  // A rate beside a base of 0, and a rate of 0 beside another base.
  expect_weights(0, 0.5, {"layer.* learning_rate=0.2"}, sgd(0.2, 0.5), 1);
  expect_weights(0, 0.5, {"* learning_rate=0.2 weight_decay=0.3"}, sgd(0.2, 0.3),
                 sgd(0.2, 0.3));
  expect_weights(0.1, 0.5, {"layer.* learning_rate=0"}, 1, sgd(0.1, 0));
  // A rate alone leaves decay to the default rule.
  expect_weights(0.1, 0.5, {"* learning_rate=0.2"}, sgd(0.2, 0.5), sgd(0.2, 0));
}

TEST(ParameterGroups, LaterValuesWin) {
  expect_weights(0.1, 0.5, {"* learning_rate=0.2", "norm.* learning_rate=0.3"},
                 sgd(0.2, 0.5), sgd(0.3, 0));
  expect_weights(0.1, 0.5, {"norm.* learning_rate=0.3", "* learning_rate=0.2"},
                 sgd(0.2, 0.5), sgd(0.2, 0));
  // What the later group does not give stays.
  expect_weights(0.1, 0.5, {"* learning_rate=0.2", "norm.* weight_decay=0.25"},
                 sgd(0.2, 0.5), sgd(0.2, 0.25));
  expect_weights(0.1, 0.5, {"* frozen", "norm.* learning_rate=0.3"}, 1, sgd(0.3, 0));
  expect_weights(0.1, 0.5, {"* learning_rate=0.3", "norm.* frozen"}, sgd(0.3, 0.5), 1);
}

// A group's rate is a peak on the run's course: warm-up and decay, whatever the base.
TEST(ParameterGroups, RatesFollowTheSchedule) {
  for (const double base : {0.0, 0.1}) {
    OptimizerConfig config = plain(base, 0);
    config.steps = 8;
    config.schedule = {DecayStyle::linear, 4, 0, 0.5};
    Model model(config, {"layer.* learning_rate=0.2"});
    double weight = 1;
    for (std::int64_t step = 1; step <= 8; ++step) {
      model.update(step);
      const double part = static_cast<double>(step);
      weight -= 0.2 * (step <= 4 ? part / 4 : 1 - 0.5 * (part - 4) / 4);
      EXPECT_NEAR(model.weight("layer.weight"), weight, 1e-14) << base << " " << step;
    }
  }
}

// AdamW, on state that its kernels take and on state that passes through rooms.
TEST(ParameterGroups, AdamW) {
  for (const char* recipe : {"fp64", "bf16_fp32_sum"}) {
    OptimizerConfig config;
    config.learning_rate = 0;
    config.weight_decay = 0.5;
    config.eps = 1e-12;
    Model model(config, {"norm.* learning_rate=0.25 weight_decay=0.5"}, recipe);
    model.update(1);
    EXPECT_EQ(model.weight("layer.weight"), 1) << recipe;
    EXPECT_NEAR(model.weight("norm.weight"), 1 - 0.25 * 0.5 - 0.25, 1e-6) << recipe;
  }
}

std::size_t sections(ParameterStore& store, const std::string& section) {
  std::size_t count = 0;
  for (const StateBox& box : store.state_boxes())
    count += box.section.starts_with(section) ? 1 : 0;
  return count;
}

TEST(Sgd, KeepsMomentumOnlyWhereThereIsSome) {
  for (const char* recipe :
       {"fp64", "fp32", "bf16", "bf16_pure", "ms_amp_o2", "ms_amp_o3"}) {
    SCOPED_TRACE(recipe);
    OptimizerConfig config = plain(0.1, 0);
    const auto bytes_of_moments = [&](Model& model) {
      model.update(1);
      model.update(2);
      const auto& kept = recipe_named(recipe);
      const bool master = kept[TensorClass::master] != kept[TensorClass::weight];
      return model.store->optimizer_bytes() -
             (master ? 2 * elements * size_of(kept[TensorClass::master].type) : 0);
    };
    Model without(config, {}, recipe);
    EXPECT_EQ(bytes_of_moments(without), 0u);
    EXPECT_EQ(sections(*without.store, "optimizer/moment1"), 0u);
    config.beta1 = 0.5;
    Model with(config, {}, recipe);
    EXPECT_EQ(bytes_of_moments(with),
              2 * elements * size_of(recipe_named(recipe)[TensorClass::moment1].type));
    EXPECT_GE(sections(*with.store, "optimizer/moment1"), 2u);
  }
}

}  // namespace
}  // namespace trireme::optim
