// Nothing travels in another type than the recipe says.
// SPDX-License-Identifier: Apache-2.0
// The messages of a step are counted by group, kind and type, for each recipe and axis.
#include "comm/trace.hpp"
#include "config/precision.hpp"
#include "ranks/equality.hpp"

namespace trireme::test {
namespace {

using comm::Collective;

// Smaller ones are statistics: losses, norms, largest magnitudes, tokens of experts.
constexpr std::int64_t smallest_tensor = 768;

// Messages of tensors in one step: of each group and kind by type.
using Messages = std::map<std::pair<std::string, Collective>, std::map<DType, int>>;

Messages messages_of(const config::RunConfig& config) {
  comm::Mesh mesh = test_mesh(config);
  Messages all;
  engine::Engine engine(config, mesh, mesh.device());
  engine.store().initialize(42);
  const std::int64_t begin = comm::trace().count();
  engine::StepObserver nobody;
  step_of(engine, config, mesh, nobody);
  const std::int64_t end = comm::trace().count();
  EXPECT_LE(end - begin, comm::Trace::capacity);
  for (std::int64_t id = begin; id < end; ++id) {
    const auto entry = comm::trace().entry(id);
    if (entry.elements >= smallest_tensor)
      ++all[{entry.group.data(), entry.kind}][entry.dtype];
  }
  return all;
}

config::RunConfig config_of(const std::string& model, const std::string& recipe,
                            const Words& words) {
  config::RunConfig config =
      equality_config(model, "bf16",
                      Words{"model.layers=2", "model.hidden=64", "model.heads=4",
                            "model.kv_heads=4", "model.feed_forward=64",
                            "model.sequence=64", "batch.global=4", "batch.micro=1"} +
                          words);
  config.precision = config::precision_of(recipe_named(recipe));
  return config;
}

std::string describe(const std::map<DType, int>& types) {
  std::string text;
  for (const auto& [type, n] : types) text += format(" {} x {}", n, name_of(type));
  return text;
}

// The group has tensors of these kinds, all in one type.
void expect_type(const Messages& all, const std::string& group,
                 std::initializer_list<Collective> kinds, DType type) {
  int count = 0;
  for (const Collective kind : kinds) {
    const auto found = all.find({group, kind});
    if (found == all.end()) continue;
    for (const auto& [seen, n] : found->second) {
      EXPECT_EQ(seen, type) << group << " " << name_of(kind) << describe(found->second);
      count += n;
    }
  }
  EXPECT_GT(count, 0) << group;
}

constexpr auto sums = {Collective::all_reduce, Collective::reduce_scatter,
                       Collective::all_to_all};
constexpr auto gathers = {Collective::all_gather};
constexpr auto layers = {Collective::all_reduce, Collective::reduce_scatter,
                         Collective::all_gather, Collective::all_to_all};
constexpr auto pairs = {Collective::send, Collective::receive};

const std::string two = "=2";

TEST(RecipeTraffic, IsOfTheTypesOfTheTable) {
  for (const Recipe& recipe : recipes()) {
    const std::string name(recipe.name);
    SCOPED_TRACE(name);
    const auto type = [&](TensorClass what) { return recipe[what].type; };
    const auto on = [&](const Words& words) {
      return messages_of(config_of("llama", name, words));
    };
    // Gradients, and with them FP8 sums on their way home; weights.
    Messages all = on({"parallel.sharding_strategy=NO_SHARD"});
    const DType gradient = type(TensorClass::gradient_traffic);
    expect_type(all, "replicas", sums, gradient);
    if (is_fp8(gradient)) expect_type(all, "replicas", gathers, gradient);
    for (const char* strategy : {"ZERO1", "FULL_SHARD"}) {
      all = on({std::string("parallel.sharding_strategy=") + strategy});
      expect_type(all, "shards", sums, gradient);
      expect_type(all, "shards", gathers, type(TensorClass::weight_traffic));
    }
    // Activations.
    all = on({"parallel.pipeline" + two});
    expect_type(all, "pipeline", pairs, type(TensorClass::pipeline_traffic));
    for (const char* sequence : {"false", "true"}) {
      all = on({"parallel.tensor" + two, std::string("parallel.sequence=") + sequence});
      expect_type(all, "tensor", layers, type(TensorClass::tensor_traffic));
    }
    const DType rows = type(TensorClass::tensor_traffic);
    all = on({"parallel.context" + two, "parallel.context_method=ulysses"});
    expect_type(all, "context", layers, rows);
  }
}

// Around a ring go keys and values, and sums of their gradients, which are kept in the
// type of sums: twice a layer and microbatch, once for each of two ranks.
TEST(RecipeTraffic, RingOfKeysAndValues) {
  for (const char* name : {"fp64", "fp32", "bf16", "fp16", "te_current"}) {
    SCOPED_TRACE(name);
    const config::RunConfig config = config_of("llama", name, {"parallel.context" + two});
    const DType type = recipe_named(name)[TensorClass::tensor_traffic].type;
    std::map<DType, int> want;
    const int times = static_cast<int>(config.model.layers * config.microbatches());
    want[type] += 2 * times;
    want[accumulator_of(type)] += 2 * times;
    EXPECT_EQ(messages_of(config).at({"context", Collective::send}), want);
  }
}

TEST(RecipeTraffic, RowsOfExperts) {
  for (const char* name : {"fp64", "fp32", "bf16", "fp16", "te_current", "ms_amp_o3"}) {
    SCOPED_TRACE(name);
    const Messages all = messages_of(
        config_of("mixtral", name, {"parallel.expert" + two, "model.moe.experts=4"}));
    expect_type(all, "experts", pairs,
                recipe_named(name)[TensorClass::tensor_traffic].type);
  }
}

}  // namespace
}  // namespace trireme::test
