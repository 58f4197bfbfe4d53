// FP8 on meshes: scales are those of whole tensors on every one, to the bit.
// SPDX-License-Identifier: Apache-2.0
// So are the quantized numbers, as far as sums in another order let them be.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/device_memory.hpp"
#include "kernels/gemm.hpp"
#include "parallel/amax_region.hpp"
#include "ranks/equality.hpp"
#include "support/device.hpp"

namespace trireme::test {
namespace {

std::string ranks() { return std::to_string(world().size()); }

// A llama whose widths, heads and tokens are multiples of `unit` on each rank of any
// axis. On four ranks two share a key/value head.
Words sizes(int unit) {
  const auto whole = std::to_string(unit * world().size());
  return {"model.hidden=" + whole,   "model.feed_forward=" + whole,
          "model.sequence=" + whole, "model.heads=4",
          "model.kv_heads=2",        "precision.compute=fp8",
          "batch.global=4",          "batch.micro=1",
          "model.layers=" + ranks()};
}

// The same with heads as wide as blocks, so that these are of one head.
Words block_sizes(int unit) { return sizes(unit) + Words{"model.heads=" + ranks()}; }

// Each splits something else. Contexts are contiguous, so that blocks of tokens are too.
std::vector<Words> meshes() {
  return {{"parallel.sharding_strategy=NO_SHARD"},
          {"parallel.sharding_strategy=FULL_SHARD"},
          {"parallel.pipeline=" + ranks(), "parallel.schedule=zb_h1"},
          {"parallel.tensor=" + ranks()},
          {"parallel.tensor=" + ranks(), "parallel.sequence=true"},
          {"parallel.context=" + ranks(), "parallel.context_order=contiguous"},
          {"parallel.context=" + ranks(), "parallel.context_order=contiguous",
           "parallel.context_method=ulysses"}};
}

config::RunConfig config_of(const std::string& model, const std::string& recipe,
                            const Words& words) {
  Words precision = {"precision.recipe=" + recipe};
  if (recipe == "te_delayed") precision.push_back("precision.amax_history=8");
  return equality_config(model, "fp8", words + precision);
}

// Everything but the operands of FP8 products in fp64: another order of a sum then moves
// it by 1e-16 of its size, which moves a code only where a number is that near to the
// middle of two, and the largest magnitude, in fp32, not at all.
config::RunConfig in_fp64(config::RunConfig config) {
  Recipe recipe = recipe_named("fp64");
  for (const TensorClass what :
       {TensorClass::forward_operand, TensorClass::backward_operand})
    recipe[what] = config.precision.recipe[what];
  config.precision.recipe = recipe;
  config.precision.compute = config.precision.accumulate =
      config.precision.gradient_reduce = DType::f64;
  return config;
}

struct Trained {
  Outcome outcome;
  std::map<std::string, std::vector<float>> histories;  // of the layers on this rank
  double rounds = 0;  // most that experts needed in the last step
};

Trained trained(const config::RunConfig& config, comm::Mesh& mesh, int steps,
                bool whole = true) {
  Trained result;
  const auto inspect = [&](engine::Engine& engine) {
    for (const StateTensor* state : engine.states()) {
      if (state->value.dtype() != DType::f32) continue;  // no scale: the router's bias
      const auto values = state->value.span<float>();
      result.histories[state->named.tensor].assign(values.begin(), values.end());
    }
    for (const nn::Moe* moe : engine.stage().moe_layers())
      result.rounds = std::max(result.rounds, moe->rounds().max);
  };
  result.outcome = train_steps(config, mesh, steps, whole, inspect, {}, false);
  return result;
}

Trained alone(config::RunConfig config, int steps, bool whole = true) {
  const std::int64_t bucket_bytes = config.parallel.bucket_bytes;
  config.parallel = {};
  config.parallel.bucket_bytes = bucket_bytes;
  comm::Mesh mesh = comm::Mesh::meta({}, 0);
  return trained(config, mesh, steps, whole);
}

Trained on_mesh(const config::RunConfig& config, int steps, bool whole = true) {
  comm::Mesh mesh = test_mesh(config);
  return trained(config, mesh, steps, whole);
}

// Experts then take what is beyond it in further rounds.
const std::string memory_of_even_load = "parallel.expert_memory=1.0";

// Histories and scales to the bit; gradients and losses as fp64 has them, which no code
// or scale that differed would leave so.
void expect_mesh_parity(const std::string& model, const std::string& recipe,
                        const Words& size, const std::vector<Words>& on) {
  constexpr int steps = 2;
  const Trained one = alone(in_fp64(config_of(model, recipe, size)), steps);
  EXPECT_EQ(one.histories.empty(), recipe != "te_delayed");
  for (const Words& mesh : on) {
    SCOPED_TRACE(model + " " + recipe + " " + mesh.front() + " " + mesh.back());
    const Trained many = on_mesh(in_fp64(config_of(model, recipe, size + mesh)), steps);
    expect_equal(many.outcome, one.outcome, eq64);
    if (std::ranges::find(mesh, memory_of_even_load) != mesh.end()) {
      EXPECT_GT(many.rounds, 1);
    }
    for (const auto& [name, values] : many.histories)
      EXPECT_EQ(values, one.histories.at(name)) << name;
  }
}

// GPUs have no products of FP8 that sum in fp64.
bool in_fp64_at_all() { return !test_device().is_cuda(); }

// Delayed scaling runs what current scaling runs, and keeps histories.
Words scaled_recipes() {
  return is_watched() ? Words{"te_delayed"} : Words{"te_delayed", "te_current"};
}

TEST(Fp8Meshes, OneScaleForATensor) {
  if (!in_fp64_at_all()) GTEST_SKIP() << "fp64 results are made on hosts alone";
  for (const std::string& recipe : scaled_recipes())
    expect_mesh_parity("llama", recipe, sizes(16), meshes());
}

TEST(Fp8Meshes, Gpt2) {
  if (!in_fp64_at_all()) GTEST_SKIP() << "fp64 results are made on hosts alone";
  expect_mesh_parity(
      "gpt2", "te_delayed", sizes(16) + Words{"model.kv_heads=4"},
      {{"parallel.tensor=" + ranks(), "parallel.sequence=true"},
       {"parallel.context=" + ranks(), "parallel.context_order=contiguous"}});
}

// Experts on any rank: theirs are the rows of the same microbatches. Two kinds: with
// dropped tokens, and with experts that all tokens use.
TEST(Fp8Meshes, Experts) {
  if (!in_fp64_at_all()) GTEST_SKIP() << "fp64 results are made on hosts alone";
  const Words experts = {"model.layers=2", "model.moe.experts=4"};
  const Words size = sizes(16) + experts;
  const std::string some = world().size() > 2 ? "2" : ranks();
  const std::vector<Words> split = {
      {"parallel.expert=" + ranks()},
      {"parallel.expert=" + some, "parallel.sharding_strategy=FULL_SHARD",
       "recompute.policy=full"},
      {"parallel.tensor=" + ranks()},
      {"parallel.expert=" + ranks(), "parallel.context=" + ranks(),
       "parallel.context_order=contiguous"}};
  for (const std::string& recipe : scaled_recipes())
    expect_mesh_parity("mixtral", recipe, size, split);
  // Blocks of an expert's tokens begin anew with each rank that they come from, and
  // rounds do not cut them.
  std::vector<Words> of_blocks = {split.begin(), split.end() - 1};
  of_blocks.push_back({"parallel.expert=" + ranks(), memory_of_even_load});
  of_blocks.push_back({"parallel.expert=" + ranks(), memory_of_even_load,
                       "parallel.schedule=zb_h1", "recompute.policy=full"});
  expect_mesh_parity("mixtral", "mxfp8", block_sizes(32) + experts, of_blocks);
  expect_mesh_parity(
      "deepseek", "te_delayed",
      size + Words{"model.moe.expert_feed_forward=64", "model.moe.groups=2"}, split);
}

// Products that make heads are FP8, those that make the small vectors are not.
TEST(Fp8Meshes, LatentAttention) {
  if (!in_fp64_at_all()) GTEST_SKIP() << "fp64 results are made on hosts alone";
  const Words latent = {"model.kv_heads=4",
                        "model.head_width=48",
                        "model.rope.width=16",
                        "model.latent.width=32",
                        "model.latent.query_width=16",
                        "model.latent.value_width=32",
                        "model.layers=2",
                        "model.moe.dense_layers=1",
                        "model.moe.experts=4",
                        "model.moe.top_k=2",
                        "model.moe.groups=2",
                        "model.moe.groups_used=1",
                        "model.moe.expert_feed_forward=64"};
  const std::vector<Words> split = {
      {"parallel.tensor=" + ranks(), "parallel.sequence=true"},
      {"parallel.context=" + ranks(), "parallel.context_order=contiguous",
       "recompute.policy=full"},
      {"parallel.expert=" + ranks(), "parallel.sharding_strategy=FULL_SHARD"}};
  for (const std::string& recipe : scaled_recipes())
    expect_mesh_parity("latent", recipe, sizes(16) + latent, split);
}

// Blocks are those of a rank's part: where its extents are whole blocks, these are the
// same on any mesh.
TEST(Fp8Meshes, Blocks) {
  if (!in_fp64_at_all()) GTEST_SKIP() << "fp64 results are made on hosts alone";
  expect_mesh_parity("llama", "mxfp8", block_sizes(32), meshes());
  if (world().size() > 2) return;  // the same rules, in matrices four times as large
  const std::vector<Words> split = {
      {"parallel.tensor=2", "parallel.sequence=true"},
      {"parallel.context=2", "parallel.context_order=contiguous"}};
  expect_mesh_parity("llama", "te_blocks",
                     block_sizes(128) + Words{"model.layers=2", "batch.global=2"}, split);
  expect_mesh_parity(
      "mixtral", "te_blocks",
      block_sizes(128) + Words{"model.layers=1", "batch.global=2", "model.moe.experts=4"},
      {{"parallel.expert=2", memory_of_even_load}});
}

// A product that is made in parts of rows, while the part before travels, has operands
// that became codes as a whole. Its rows are made one like the other: libraries add in an
// order that depends on their number, where FP8 goes through fp32.
TEST(Fp8Meshes, PartsOfRowsHaveTheBitsOfOneProduct) {
  const struct IndependentRows {
    IndependentRows() { kernels::set_independent_rows(!test_device().is_cuda()); }
    ~IndependentRows() { kernels::set_independent_rows(false); }
  } rows;
  struct Way {
    const char* model;
    const char* recipe;
    const char* parts;
    Words words;
  };
  for (const Way& way :
       {Way{"llama", "te_delayed", "3", {}}, Way{"gpt2", "te_current", "5", {}},
        Way{"llama",
            "te_delayed",
            "2",
            {"precision.keep_weight_codes=true", "recompute.policy=full"}},
        Way{"llama", "te_blocks", "4", {"parallel.sequence=true"}},
        Way{"llama", "mxfp8", "2", {"parallel.sequence=true"}}}) {
    if (way.recipe == std::string("mxfp8") && test_device().is_cuda()) continue;
    SCOPED_TRACE(std::string(way.recipe) + " in " + way.parts);
    const Words words =
        sizes(32) +
        Words{"parallel.tensor=" + ranks(), "model.kv_heads=4", "model.layers=2"} +
        way.words;
    const auto in_parts = [&](const std::string& parts) {
      return on_mesh(config_of(way.model, way.recipe,
                               words + Words{"parallel.tensor_chunks=" + parts}),
                     3);
    };
    const Trained whole = in_parts("1"), parts = in_parts(way.parts);
    expect_same_bits(parts.outcome.gradients, whole.outcome.gradients);
    EXPECT_EQ(parts.outcome.losses, whole.outcome.losses);
    EXPECT_EQ(parts.outcome.norms, whole.outcome.norms);
    EXPECT_EQ(parts.histories, whole.histories);
  }
}

// In bf16 too every number and so every scale is the same where no sum is split.
TEST(Fp8Meshes, BitsInBf16WhereNoSumIsSplit) {
  if (test_device().is_cuda()) GTEST_SKIP() << "the run beside it is one of the host";
  const Trained one = alone(config_of("llama", "te_delayed", sizes(16)), 1, false);
  for (const Words& mesh : {meshes()[0], meshes()[1], meshes()[2]}) {
    SCOPED_TRACE(mesh.front());
    const Trained many =
        on_mesh(config_of("llama", "te_delayed", sizes(16) + mesh), 1, false);
    ASSERT_FALSE(many.histories.empty());
    for (const auto& [name, values] : many.histories)
      EXPECT_EQ(values, one.histories.at(name)) << name;
  }
}

// The first step's magnitudes of x, W and dy.
using Amaxes = std::map<std::string, std::array<float, 3>>;
Amaxes first_amaxes(const Trained& run) {
  Amaxes amaxes;
  for (const auto& [name, values] : run.histories) {
    if (!name.ends_with(".amax_history")) continue;
    const std::size_t per = values.size() / 3;
    amaxes[name] = {values[0], values[per], values[2 * per]};
  }
  return amaxes;
}

// Root mean square of log(a / b) over the layers: the relative distance.
double distance(const Amaxes& a, const Amaxes& b, std::size_t operand) {
  double sum = 0;
  for (const auto& [name, amax] : a) {
    const double log = std::log(double{amax[operand]} / b.at(name)[operand]);
    sum += log * log;
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

// Where sums are split, bf16 rounds them elsewhere. In the first step
// - weights are the same everywhere, and so are their scales, to the bit;
// - so is x of the first layer, which no split sum has touched;
// - every other x and dy is, on any mesh, one draw from the same roundings of the numbers
//   that fp64 would give (which are one and the same: see above). With 16 layers the
//   quotient of two such distances exceeds 3 with a probability of 1e-4 (F(16, 16) = 9).
//   A scale of a part would be off by tens of percent in most layers.
TEST(Fp8Meshes, RoundingsOfBf16OnSplitTensors) {
  const Words size = sizes(16) + Words{"model.layers=4"};
  const config::RunConfig config = config_of("llama", "te_delayed", size);
  const Trained one = alone(config, 1, false);
  if (!in_fp64_at_all()) GTEST_SKIP() << "fp64 results are made on hosts alone";
  const Amaxes exact = first_amaxes(alone(in_fp64(config), 1, false));
  const Amaxes bf16 = first_amaxes(one);
  for (const Words& mesh : {meshes()[3], meshes()[4], meshes()[5]}) {
    SCOPED_TRACE(mesh.front());
    const Amaxes many =
        first_amaxes(on_mesh(config_of("llama", "te_delayed", size + mesh), 1, false));
    ASSERT_EQ(many.size(), exact.size());
    for (const auto& [name, amax] : many) EXPECT_EQ(amax[1], bf16.at(name)[1]) << name;
    const std::string first = "model.layers.0.self_attn.q_proj.amax_history";
    EXPECT_EQ(many.at(first)[0], bf16.at(first)[0]);
    for (const std::size_t operand : {0, 2}) {
      EXPECT_GT(distance(bf16, exact, operand), 0.0);
      EXPECT_LT(distance(many, exact, operand), 3 * distance(bf16, exact, operand))
          << "operand " << operand;
    }
  }
}

// Six steps on one batch, as in bf16. Rounding to nearest with a relative spacing of 2u
// has a root mean square of at most u / sqrt(3), u = 2^-4 for E4M3 and 2^-3 for E5M2. On
// the way of a gradient through the 16 layers two operands of E4M3 are rounded in each
// forward product, one of either type in each backward product: squared and summed
// (32 + 16) 2^-8 / 3 + 16 2^-6 / 3 = 0.146, which makes the gradient wrong by 38 % of its
// size at most, at random. So is the step, and with it, to first order, what the loss
// falls.
TEST(Fp8Meshes, LearnsAsBf16) {
  constexpr int steps = 6;
  const Words small =
      sizes(16) + Words{"model.initializer_range=0.02", "optimizer.learning_rate=1e-3"};
  config::RunConfig config = config_of("llama", "te_current", small);
  config.precision.recipe = recipe_named("bf16");
  const auto bf16 = alone(config, steps, false).outcome.losses;
  const double fall = bf16.front() - bf16.back();
  ASSERT_GT(fall, 0.05);
  for (const char* recipe : {"te_current", "te_delayed"}) {
    for (const Words& words :
         {Words{}, Words{"parallel.tensor=" + ranks()}, Words{"recompute.policy=full"},
          Words{"precision.first_bf16=1", "precision.last_bf16=1"}}) {
      if (world().size() > 2 && !words.empty()) continue;
      const auto got =
          on_mesh(config_of("llama", recipe, small + words), steps, false).outcome.losses;
      EXPECT_NEAR(got.front() - got.back(), fall, 0.38 * fall) << recipe;
    }
  }
}

// The largest of all ranks, on all; a NaN of any rank is everyone's.
TEST(Fp8Meshes, AmaxIsThatOfAllRanks) {
  const config::RunConfig config = config_of("llama", "te_current", sizes(16));
  comm::Mesh mesh = test_mesh(config);
  comm::Group& group = mesh.replicas();
  const parallel::AmaxRegion region(group, mesh.alone());
  Arena scratch(mesh.device(), 4096, MemoryClass::workspace, "scratch");
  Stream stream(mesh.device());
  const auto agreed = [&](float mine) {
    const Buffer amax(mesh.device(), DType::f32, {1}, MemoryClass::workspace, "amax");
    copy_bytes(stream, TensorView(&mine, DType::f32, {1}), amax.view());
    region.agree(stream, scratch, amax.view());
    copy_bytes(stream, amax.view(), TensorView(&mine, DType::f32, {1}));
    stream.synchronize();
    return mine;
  };
  const int rank = group.rank(), last = group.size() - 1;
  EXPECT_EQ(agreed(static_cast<float>(rank)), static_cast<float>(last));
  EXPECT_EQ(agreed(rank == 0 ? 3e38f : 1e-40f), 3e38f);
  EXPECT_TRUE(std::isnan(agreed(rank == last ? std::nanf("") : 1.0f)));
}

}  // namespace
}  // namespace trireme::test
