// run.cuda_graphs: a recorded microbatch gives the bits of one that is not.
// SPDX-License-Identifier: Apache-2.0
// Its kernels are launched as a graph, the other's one by one, with other tokens and
// another scale of the loss each time.
#include <gtest/gtest.h>

#include <cstring>

#include "base/graph.hpp"
#include "base/philox.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/runtime/working_memory.hpp"
#include "ranks/equality.hpp"
#include "support/device.hpp"
#include "support/state_bytes.hpp"
#include "support/step.hpp"

namespace trireme::test {
namespace {

constexpr std::int64_t microbatches = 4;

config::RunConfig config_of(const std::string& model, const std::string& compute,
                            bool graphs, const Words& words = {}) {
  const int ranks = world().size();
  return equality_config(
      model, compute,
      Words{"run.device=cuda", "model.layers=2", "model.sequence=16", "batch.micro=1",
            "batch.global=" + std::to_string(microbatches * ranks),
            std::string("run.cuda_graphs=") + (graphs ? "true" : "false")} +
          words);
}

// Tokens and targets of a rank's microbatches of a step, every step's its own.
class Ids {
 public:
  Ids(const config::RunConfig& config, int step, std::uint64_t salt) {
    const std::int64_t T = config.batch.micro * config.model.sequence;
    const Random random(static_cast<std::uint64_t>(world().rank()) + 7, salt);
    for (std::int64_t m = 0; m < config.microbatches(); ++m) {
      for (auto* views : {&inputs, &targets}) {
        memory_.emplace_back(Device::host(), DType::i32, Shape{T}, MemoryClass::data,
                             "ids");
        const auto ids = memory_.back().view().span<std::int32_t>();
        for (std::size_t t = 0; t < ids.size(); ++t) {
          const auto at = static_cast<std::uint64_t>(step * 1000 + m * 100) +
                          static_cast<std::uint64_t>(t) * 100000;
          ids[t] = static_cast<std::int32_t>(
              random.below(at, static_cast<std::uint64_t>(config.model.vocabulary)));
          if (views == &targets && (t + at) % 5 == 0) ids[t] = -100;
        }
        views->push_back(memory_.back().view());
      }
    }
  }
  std::vector<TensorView> inputs, targets;

 private:
  std::vector<Buffer> memory_;
};

struct Trained {
  std::vector<double> losses, norms;
  std::vector<std::vector<std::byte>> gradients;  // of each step
  std::vector<std::byte> state;
  std::int64_t recorded = 0, launched = 0, allocations = 0;
};

struct Steps {
  std::vector<double> loss_scales = {1.0, 1.0};
  std::uint64_t last_salt = 1;  // of the tokens of the last step
  // Called after each step but the last, where given.
  std::function<void(engine::Engine&)> between{};
};

Trained train_with(const config::RunConfig& config, const Steps& steps = {}) {
  comm::Mesh mesh = test_mesh(config);
  engine::Engine engine(config, mesh, mesh.device());
  engine.store().initialize(42);
  Trained trained;
  const int count = static_cast<int>(steps.loss_scales.size());
  for (int step = 1; step <= count; ++step) {
    const Ids ids(config, step, step == count ? steps.last_salt : 1);
    const std::int64_t before = memory_allocations();
    AtGradients observer(
        [&](double) {
          if (step > 1) trained.allocations += memory_allocations() - before;
          trained.gradients.push_back(bytes_of(engine.store().gradient_boxes()));
        },
        true);
    const double scale = steps.loss_scales[static_cast<std::size_t>(step - 1)];
    if (auto& scaler = engine.scaler()) {
      *scaler->state().data<float>() = static_cast<float>(scale);
    } else {
      observer.factor = scale;
    }
    const auto result = engine.train_step({.step = step,
                                           .inputs = ids.inputs,
                                           .targets = ids.targets,
                                           .valid_tokens = 70 + step},
                                          observer);
    trained.losses.push_back(result.loss);
    // As it is kept: with the loss scale.
    trained.norms.push_back(result.gradient_norm * (engine.scaler() ? scale : 1.0));
    if (steps.between && step < count) steps.between(engine);
  }
  trained.state = bytes_of(engine.store().state_boxes());
  if (engine.executor().graphs()) {
    trained.recorded = engine.executor().graphs()->recorded();
    trained.launched = engine.executor().graphs()->launched();
  }
  return trained;
}

void expect_same(const Trained& a, const Trained& b) {
  EXPECT_TRUE(same_bits(a.losses, b.losses));
  EXPECT_TRUE(same_bits(a.norms, b.norms));
  ASSERT_FALSE(a.state.empty());
  EXPECT_TRUE(a.gradients == b.gradients);
  EXPECT_TRUE(a.state == b.state);
}

// Launches of the forwards and backwards of so many steps: all but the first of each, and
// with replicas, whose sums MPI makes, but the last of each step.
std::int64_t launches(int steps) {
  const std::int64_t of_step = microbatches - (world().size() > 1 ? 1 : 0);
  return 2 * (of_step * steps - 1);
}

struct Case {
  const char* model;
  const char* compute;
};
class GpuGraphs : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, GpuGraphs,
                         testing::Values(Case{"llama", "fp32"}, Case{"llama", "bf16"},
                                         Case{"gpt2", "fp32"}, Case{"gpt2", "bf16"}),
                         [](const auto& info) {
                           return std::string(info.param.model) + "_" +
                                  info.param.compute;
                         });

TEST_P(GpuGraphs, GiveTheSameBits) {
  const auto [model, compute] = GetParam();
  const Steps steps{.loss_scales = {1.0, 1.0, 1.0}};
  const Trained graphs = train_with(config_of(model, compute, true), steps);
  const Trained singly = train_with(config_of(model, compute, false), steps);
  expect_same(graphs, singly);
  EXPECT_EQ(graphs.recorded, 2);
  EXPECT_EQ(graphs.launched, launches(3));
  EXPECT_EQ(singly.launched, 0);
  EXPECT_EQ(graphs.allocations, 0);
}

// With fp16 the scale of the loss changes; what it makes of the gradients is seen.
TEST(GpuGraphsFp16, FollowTheLossScale) {
  const Steps falling{.loss_scales = {1024.0, 512.0, 2048.0}};
  const Trained graphs = train_with(config_of("llama", "fp16", true), falling);
  const Trained singly = train_with(config_of("llama", "fp16", false), falling);
  expect_same(graphs, singly);
  EXPECT_EQ(graphs.launched, launches(3));
  const Trained constant = train_with(config_of("llama", "fp16", true),
                                      {.loss_scales = {1024.0, 1024.0, 1024.0}});
  EXPECT_TRUE(constant.gradients[0] == graphs.gradients[0]);
  EXPECT_NEAR(graphs.norms[1] / constant.norms[1], 0.5, 1e-3);
  EXPECT_NEAR(graphs.norms[2] / constant.norms[2], 2.0, 1e-3);
}

// A slot for each microbatch, activations that are made again or wait on the host,
// sharded optimizer state, a table that is used twice: each in as many graphs as
// it has slots.
TEST(GpuGraphsOf, OtherWaysToTrain) {
  struct Way {
    const char* model;
    Words words;
    std::int64_t recorded;
  };
  const std::int64_t slots = microbatches - (world().size() > 1 ? 1 : 0);
  const std::vector<Way> ways = {
      {"llama", {"parallel.schedule=gpipe"}, 2 * slots},
      {"llama", {"parallel.offload_activations=true", "model.layers=5"}, 2},
      {"llama",
       {"parallel.offload_activations=true", "parallel.schedule=gpipe",
        "recompute.policy=full", "model.layers=4"},
       2 * slots},
      {"llama-tied", {"recompute.policy=full", "parallel.sharding_strategy=ZERO1"}, 2},
      {"gpt2", {"parallel.schedule=zb_h1"}, 3},
      {"gpt2-tied", {"recompute.policy=selective", "recompute.pieces=[\"norm\"]"}, 2}};
  for (const Way& way : ways) {
    SCOPED_TRACE(testing::PrintToString(way.words));
    const Trained graphs = train_with(config_of(way.model, "fp32", true, way.words));
    expect_same(graphs, train_with(config_of(way.model, "fp32", false, way.words)));
    EXPECT_EQ(graphs.recorded, way.recorded);
    EXPECT_GT(graphs.launched, 0);
  }
}

// Masks are drawn anew in each microbatch of each step, by numbers that lie in memory:
// of attention, of what joins the residual stream, of the input of adapters.
TEST(GpuGraphsOf, Dropout) {
  struct Way {
    const char* model;
    Words words;
  };
  const Words adapter = {"adapter.rank=2", "adapter.dropout=0.4"};
  for (const Way& way : {Way{"dropout", {}}, Way{"dropout", {"recompute.policy=full"}},
                         Way{"llama", adapter}}) {
    SCOPED_TRACE(way.model + testing::PrintToString(way.words));
    const Steps steps{.loss_scales = {1.0, 1.0, 1.0}};
    const Trained graphs =
        train_with(config_of(way.model, "fp32", true, way.words), steps);
    expect_same(graphs,
                train_with(config_of(way.model, "fp32", false, way.words), steps));
    EXPECT_GT(graphs.launched, 0);
  }
}

// Scales and codes of weights are made in the first microbatch of a step, which is
// another graph than those that find them. A step that counts what FP8 loses, here the
// second, launches each kernel by itself. With histories scales stand from the second
// step on, whose kernels are others than those of the first: all is recorded anew.
TEST(GpuGraphsOf, Fp8) {
  const Words sizes = {"model.hidden=64",    "model.feed_forward=64",
                       "model.heads=2",      "model.kv_heads=2",
                       "model.sequence=128", "precision.report_every=2"};
  const Steps steps{.loss_scales = {1.0, 1.0, 1.0, 1.0, 1.0}};
  struct Way {
    std::string recipe;
    Words words;
    std::int64_t recorded = 3;
  };
  for (const Way& way :
       {Way{"te_current", {}}, Way{"te_current", {"precision.keep_weight_codes=true"}},
        Way{"te_blocks", {"precision.keep_weight_codes=true"}}, Way{"te_delayed", {}, 5},
        Way{"te_delayed", {"precision.keep_weight_codes=true"}, 5}}) {
    // Data ranks quantize as one rank does, but for the histories.
    if (world().size() > 1 && way.recipe != "te_delayed") continue;
    SCOPED_TRACE(way.recipe + testing::PrintToString(way.words));
    const Words words = sizes + way.words + Words{"precision.recipe=" + way.recipe};
    const Trained graphs = train_with(config_of("llama", "fp8", true, words), steps);
    expect_same(graphs, train_with(config_of("llama", "fp8", false, words), steps));
    if (world().size() == 1) {
      EXPECT_EQ(graphs.recorded, way.recorded);
    }
    EXPECT_GT(graphs.launched, 0);
  }
}

// Messages travel between the graphs; what a graph reads of other chunks and of messages
// lies in few places.
TEST(GpuGraphsOf, Pipelines) {
  if (world().size() == 1) GTEST_SKIP() << "on several ranks";
  const Words stages = {"parallel.pipeline=" + std::to_string(world().size()),
                        "model.layers=4"};
  const Steps steps{.loss_scales = {1.0, 1.0, 1.0}};
  struct Way {
    const char* model;
    Words words;
  };
  for (const Way& way :
       {Way{"llama-tied", {"parallel.schedule=1f1b"}},
        Way{"llama", {"parallel.schedule=gpipe"}},
        Way{"dropout", {"parallel.schedule=zb_h1"}},
        Way{"llama", {"parallel.schedule=1f1b", "parallel.offload_activations=true"}},
        Way{"llama-tied",
            {"parallel.schedule=zb_v", "parallel.virtual_stages=2",
             "recompute.policy=full"}},
        Way{"gpt2", {"parallel.schedule=dualpipe_v", "parallel.virtual_stages=2"}},
        Way{"llama-tied",
            {"parallel.schedule=interleaved", "parallel.virtual_stages=2",
             "recompute.policy=full"}}}) {
    SCOPED_TRACE(way.words.front());
    const Words words = stages + way.words;
    const Trained graphs = train_with(config_of(way.model, "fp32", true, words), steps);
    expect_same(graphs, train_with(config_of(way.model, "fp32", false, words), steps));
    // In the third step all is launched.
    EXPECT_GE(graphs.launched, 2 * microbatches * world().size());
    EXPECT_EQ(graphs.allocations, 0);
  }
}

TEST(GpuGraphsOf, OtherTokensGiveOtherGradients) {
  const auto config = config_of("llama", "fp32", true);
  const Trained one = train_with(config), other = train_with(config, {.last_salt = 2});
  EXPECT_TRUE(one.gradients[0] == other.gradients[0]);
  EXPECT_FALSE(one.gradients[1] == other.gradients[1]);
  EXPECT_NE(one.losses[1], other.losses[1]);
}

// What runs between steps uses the same memory, and may move that of kernels: then what
// was recorded is recorded anew.
TEST(GpuGraphsOf, AreRecordedAnewWhereMemoryMoved) {
  for (const bool moves : {false, true}) {
    const Steps steps{.between = [moves](engine::Engine& engine) {
      const Ids ids(config_of("llama", "fp32", false), 9, 3);
      engine.evaluate(ids.inputs[0], ids.targets[0]);
      if (!moves) return;
      kernels::release_working_memory(test_device());
      kernels::reserve_working_memory(test_device(), 3 << 20);
    }};
    const Trained graphs = train_with(config_of("llama", "fp32", true), steps);
    expect_same(graphs, train_with(config_of("llama", "fp32", false), steps));
    EXPECT_EQ(graphs.recorded, moves ? 4 : 2);
  }
}

// An evaluation between steps runs forward in the memory of the first microbatch, whose
// graphs then find what they found before.
TEST(GpuGraphsOf, OutlastAnEvaluation) {
  const Steps steps{.loss_scales = {1.0, 1.0, 1.0, 1.0},
                    .between = [](engine::Engine& engine) {
                      const Ids ids(config_of("llama", "fp32", false), 9, 3);
                      engine.evaluate(ids.inputs[0], ids.targets[0]);
                    }};
  for (const Words& words :
       {Words{"parallel.offload_activations=true", "model.layers=4"}}) {
    SCOPED_TRACE(testing::PrintToString(words));
    const Trained graphs = train_with(config_of("llama", "fp32", true, words), steps);
    expect_same(graphs, train_with(config_of("llama", "fp32", false, words), steps));
    EXPECT_GT(graphs.launched, 0);
  }
}

// What a graph cannot hold is an error that names the call, and the queue goes on.
TEST(GpuGraph, RefusesWhatCannotBeRecorded) {
  Stream stream(test_device());
  const Buffer x(test_device(), DType::f32, {1}, MemoryClass::workspace, "x");
  float host = 1;
  const TensorView pageable(&host, DType::f32, {1});
  const auto refusal = [&](const std::function<void()>& work) {
    try {
      Graph::record(stream, work);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::transport);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(refusal([&] { stream.synchronize(); }).find("cudaStreamSynchronize"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              const Buffer more(test_device(), DType::f32, {1}, MemoryClass::workspace,
                                "more");
            }).find("cudaMalloc"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              kernels::fill(stream, x.view(), 3);
              copy_bytes(stream, x.view(), pageable);
            }).find("cuda"),
            std::string::npos);
  EXPECT_THROW(Graph::record(stream, [] { throw std::runtime_error("mine"); }),
               std::runtime_error);
  const Graph graph = Graph::record(stream, [&] { kernels::fill(stream, x.view(), 7); });
  EXPECT_EQ(graph.nodes(), 1u);
  kernels::fill(stream, x.view(), 2);
  copy_bytes(stream, x.view(), pageable);
  EXPECT_EQ(host, 2);
  graph.launch(stream);
  copy_bytes(stream, x.view(), pageable);
  EXPECT_EQ(host, 7);
}

}  // namespace
}  // namespace trireme::test
