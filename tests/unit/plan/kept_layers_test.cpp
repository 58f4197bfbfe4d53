// A few layers stand for all: which are kept, and that nothing is lost by it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/kept_layers.hpp"

#include <gtest/gtest.h>

#include "model/stage.hpp"
#include "plan/layer_costs.hpp"
#include "small_deck.hpp"

namespace trireme::plan {
namespace {

using Layers = std::vector<std::int64_t>;

config::RunConfig deck(const std::vector<std::string>& overrides) {
  return small_deck(overrides, 1);
}

// With experts in all layers but the first `dense`.
config::RunConfig experts(int layers, int dense) {
  return deck({"model.architecture=deepseek_moe", format("model.layers={}", layers),
               "model.moe.experts=4", "model.moe.top_k=2",
               "model.moe.expert_feed_forward=48",
               format("model.moe.dense_layers={}", dense)});
}

// Layers with a window and layers without one, in turn.
config::RunConfig windows(int layers) {
  std::string types;
  for (int i = 0; i < layers; ++i)
    types += format("{}\"{}_attention\"", i > 0 ? ", " : "", i % 2 ? "full" : "sliding");
  return deck({"model.architecture=gpt_oss", format("model.layers={}", layers),
               "model.window=16", format("model.layer_types=[{}]", types),
               "model.moe.experts=4", "model.moe.top_k=2"});
}

TEST(KeptLayers, EndsAndOneOfEachKind) {
  EXPECT_EQ(ends_and_kinds(experts(61, 3)).layers, (Layers{0, 1, 3, 60}));
  EXPECT_EQ(ends_and_kinds(experts(61, 1)).layers, (Layers{0, 1, 60}));
  EXPECT_EQ(ends_and_kinds(experts(61, 0)).layers, (Layers{0, 1, 60}));
  EXPECT_EQ(ends_and_kinds(windows(24)).layers, (Layers{0, 1, 2, 23}));
  for (const int layers : {1, 2, 3})
    EXPECT_EQ(std::ssize(ends_and_kinds(experts(layers, 0)).layers), layers);
  const KeptLayers kept = ends_and_kinds(experts(6, 3));
  EXPECT_EQ(kept.layers, (Layers{0, 1, 3, 5}));
  EXPECT_EQ(kept.place, (std::vector<std::size_t>{0, 1, 1, 2, 2, 3}));
}

TEST(KeptLayers, AllWherePatternsNameThem) {
  config::RunConfig named = experts(9, 3);
  const auto group = [&](const std::string& pattern) {
    named.optimizer.groups = {{.pattern = pattern, .frozen = true}};
    EXPECT_EQ(ends_and_kinds(named).layers.size(), in_proportion(named).size())
        << pattern;
    return std::ssize(ends_and_kinds(named).layers);
  };
  EXPECT_EQ(group("model.layers.4.*"), 9);
  EXPECT_EQ(group("*.7.mlp.*"), 9);
  named.optimizer.groups = {{.pattern = "*.fc1.*", .frozen = true},
                            {.pattern = "*.dense_4h_to_h.*", .frozen = true}};
  EXPECT_EQ(ends_and_kinds(named).layers, (Layers{0, 1, 3, 8}));
  named.adapter.matrices.targets = {R"(re:model\.layers\.(1|2)\.mlp\..*)"};
  EXPECT_EQ(std::ssize(ends_and_kinds(named).layers), 9);
}

TEST(KeptLayers, InProportion) {
  EXPECT_EQ(in_proportion(experts(61, 3)), (Layers{0, 3, 4, 5, 60}));
  EXPECT_EQ(in_proportion(experts(61, 0)), (Layers{0, 1, 60}));
  EXPECT_EQ(in_proportion(experts(2, 1)), (Layers{0, 1}));
  EXPECT_EQ(in_proportion(windows(24)), (Layers{0, 1, 2, 23}));
}

TEST(KeptLayers, EachLayerIsWhatItWas) {
  for (const auto& whole : {experts(9, 3), windows(8)}) {
    const KeptLayers kept = ends_and_kinds(whole);
    config::RunConfig part = whole;
    keep_layers(part, kept.layers);
    ASSERT_EQ(part.model.layers, std::ssize(kept.layers));
    for (std::int64_t layer = 0; layer < whole.model.layers; ++layer) {
      const auto place =
          static_cast<std::int64_t>(kept.place[static_cast<std::size_t>(layer)]);
      EXPECT_EQ(part.model.is_moe(place), whole.model.is_moe(layer)) << layer;
      EXPECT_EQ(part.model.window_of(place), whole.model.window_of(layer)) << layer;
    }
  }
  config::RunConfig precise = experts(9, 3);
  precise.precision.first_bf16 = 2;
  precise.precision.last_bf16 = 1;
  precise.recompute.layers = 4;
  keep_layers(precise, {0, 1, 3, 8});
  EXPECT_EQ(precise.precision.first_bf16, 2);
  EXPECT_EQ(precise.precision.last_bf16, 1);
  EXPECT_EQ(precise.recompute.layers, 3);
}

Machine machine() {
  Machine m;
  m.ranks_per_node = 4;
  m.memory_bytes = 1e12;
  m.products = {.fp32 = 1e10, .bf16 = 2e10, .half_inner = 16, .half_side = 16};
  m.attention_forward = m.attention_backward = 0.5;
  m.sweep_rate = 4e9;
  m.kernel_seconds = 1e-6;
  m.links = {2e9, 5e-6, 5e8, 2e-5, 0.8};
  return m;
}

// Nothing is lost: the costs of a long model are those of one in which every layer is
// run.
TEST(KeptLayers, CostsAreThoseOfLayersThatAreRun) {
  const Machine on_machine = machine();
  const PlannedDevice on{Device::host(), comm::Transport::mpi, &on_machine};
  struct Case {
    config::RunConfig all_run, some_run;
    std::vector<std::size_t> same;  // of each layer of the second, one of the first
  };
  const Case cases[] = {{experts(4, 2), experts(9, 3), {0, 1, 1, 2, 2, 2, 2, 2, 3}},
                        {windows(4), windows(8), {0, 1, 2, 1, 2, 1, 2, 3}}};
  for (const Case& one : cases) {
    const LayerCosts all = measure_layers(one.all_run, on),
                     some = measure_layers(one.some_run, on);
    ASSERT_EQ(some.layers.size(), one.same.size());
    double parameters = 0;
    for (std::size_t i = 0; i < one.same.size(); ++i) {
      const LayerCost &a = all.layers[one.same[i]], &b = some.layers[i];
      EXPECT_NEAR(a.forward, b.forward, 1e-9 * a.forward) << i;
      EXPECT_NEAR(a.backward, b.backward, 1e-9 * a.backward) << i;
      EXPECT_EQ(a.saved_bytes, b.saved_bytes) << i;
      EXPECT_EQ(a.parameters, b.parameters) << i;
      EXPECT_EQ(a.expert_parameters, b.expert_parameters) << i;
      parameters += b.parameters + b.expert_parameters;
    }
    EXPECT_EQ(parameters,
              static_cast<double>(model::parameter_count(one.some_run.model)));
    EXPECT_EQ(all.working_bytes, some.working_bytes);
  }
}

}  // namespace
}  // namespace trireme::plan
