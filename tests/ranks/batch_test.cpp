// Batches give each text what it gets alone, on every mesh of stages and tensor ranks.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/philox.hpp"
#include "infer/batch_generator.hpp"
#include "infer/cache_plan.hpp"
#include "infer/evaluation.hpp"
#include "infer/generator.hpp"
#include "kernels/gemm.hpp"
#include "support/transport.hpp"
#include "support/written_model.hpp"

namespace trireme {
namespace {

using infer::BatchOptions;
using infer::Generated;
using infer::Generation;

constexpr std::int64_t positions = 48;

// Prompts of several lengths, some sampled, some greedy.
std::vector<Generation> some_generations() {
  std::vector<Generation> all;
  const Random random(7, 2);
  std::uint64_t drawn = 0;
  for (const std::int64_t length : {1, 3, 17, 5, 30, 8, 11}) {
    Generation& one = all.emplace_back();
    for (std::int64_t i = 0; i < length; ++i)
      one.prompt.push_back(static_cast<std::int32_t>(random.below(drawn++, 19)));
    one.max_new_tokens = 3 + length % 5;
    one.sampler.temperature = length % 2 == 0 ? 0.9 : 0.0;
    one.sampler.seed = static_cast<std::uint64_t>(length);
    one.log_probabilities = 2;
  }
  return all;
}

std::map<std::size_t, Generated> run(const infer::LoadedModel& model,
                                     comm::Group& pipeline, const BatchOptions& options,
                                     const std::vector<Generation>& all,
                                     const std::vector<std::size_t>& numbers,
                                     std::int64_t* preemptions = nullptr) {
  infer::BatchGenerator batch(model, pipeline, options, all);
  std::map<std::size_t, Generated> made;
  batch.run(
      numbers,
      [&](std::size_t number, Generated&& one) { made[number] = std::move(one); },
      [&](const infer::BatchProgress& progress) {
        if (preemptions != nullptr) *preemptions = progress.preemptions;
      });
  return made;
}

// To the bit.
void expect_same(const Generated& one, const Generated& other) {
  EXPECT_EQ(one.tokens, other.tokens);
  EXPECT_EQ(one.finish, other.finish);
  ASSERT_EQ(one.probabilities.size(), other.probabilities.size());
  for (std::size_t i = 0; i < one.probabilities.size(); ++i) {
    EXPECT_EQ(one.probabilities[i].chosen, other.probabilities[i].chosen);
    EXPECT_EQ(one.probabilities[i].likeliest, other.probabilities[i].likeliest);
  }
}

// As far as sums in another order allow.
void expect_near(const std::map<std::size_t, Generated>& some,
                 const std::map<std::size_t, Generated>& others) {
  for (const auto& [number, one] : some) {
    const Generated& other = others.at(number);
    EXPECT_EQ(one.tokens, other.tokens);
    for (std::size_t i = 0; i < one.probabilities.size(); ++i)
      EXPECT_NEAR(one.probabilities[i].chosen, other.probabilities[i].chosen, 1e-10);
  }
}

BatchOptions options_for(DType type) {
  BatchOptions options;
  options.step_tokens = 24;
  options.chunk = 8;
  options.texts = 8;
  options.block = 4;
  options.cache.type = type;
  return options;
}

// A model of random numbers whose matrices all ranks share.
struct OnTensorRanks {
  test::WrittenModel written;
  io::CheckpointReader reader;
  comm::Mesh mesh;
  comm::Group& pipeline;
  infer::LoadedModel model;

  OnTensorRanks(const model::ModelConfig& config, DType type, const std::string& name)
      : written(config, name),
        reader(written.directory()),
        mesh(test::world(), {.tensor = test::world().size()}, {}, test::test_device(),
             test::test_transport()),
        pipeline(mesh.group(comm::Axis::pipeline)),
        model(config, type, mesh.group(comm::Axis::tensor), config.sequence, reader,
              test::test_device()) {}
};

// A text alone, in company, cut for want of memory, on the meshes of this world.
void check(const model::ModelConfig& config, DType compute = DType::f64) {
  comm::World& world = test::world();
  const test::WrittenModel written(config, "trireme-batch");
  const io::CheckpointReader reader(written.directory());
  const std::vector<Generation> all = some_generations();
  std::vector<std::size_t> numbers(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) numbers[i] = i;
  std::vector<comm::MeshShape> shapes = {{.tensor = world.size()}};
  if (world.size() > 1) shapes.push_back({.pipeline = world.size()});
  if (world.size() == 4) shapes.push_back({.pipeline = 2, .tensor = 2});
  std::map<std::size_t, Generated> first;
  for (const comm::MeshShape& shape : shapes) {
    if (compute != DType::f64 && shape.tensor != world.size()) continue;
    comm::Mesh mesh(world, shape, {}, test::test_device(), test::test_transport());
    comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
    const infer::LoadedModel model(config, compute, mesh.group(comm::Axis::tensor),
                                   config.sequence, reader, test::test_device(),
                                   {pipeline.rank(), pipeline.size()});
    const BatchOptions options = options_for(compute);
    const auto together = run(model, pipeline, options, all, numbers);
    ASSERT_EQ(together.size(), all.size());
    for (const std::size_t number : {1U, 4U, 5U}) {
      const auto alone = run(model, pipeline, options, all, {number});
      expect_same(alone.at(number), together.at(number));
    }
    BatchOptions scarce = options;
    scarce.step_tokens = 40;
    scarce.texts = 5;
    scarce.block = 3;
    scarce.cache_bytes = 0;
    for (const std::int64_t bytes : infer::block_bytes(model, options.cache, 3))
      scarce.cache_bytes += bytes * pipeline.size() * (config.window > 0 ? 20 : 13);
    scarce.cache_bytes =
        static_cast<std::int64_t>(world.max(static_cast<double>(scarce.cache_bytes)));
    std::int64_t preemptions = 0;
    const auto cut = run(model, pipeline, scarce, all, numbers, &preemptions);
    for (const std::size_t number : numbers)
      expect_same(cut.at(number), together.at(number));
    if (config.window == 0 && config.rope_scaling.original == 0 && pipeline.size() == 1) {
      EXPECT_GT(preemptions, 0);
    }
    if (first.empty()) first = together;
    // Other meshes sum in other orders.
    if (compute == DType::f64) expect_near(together, first);
  }
  // The model's own greedy text, by the generator of one text, on the host.
  if (compute != DType::f64) return;
  comm::Mesh mesh(world, {.tensor = world.size()});
  const infer::LoadedModel model(config, compute, mesh.group(comm::Axis::tensor),
                                 config.sequence, reader);
  comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
  if (test::test_device().is_cuda())  // the same batch on the host
    expect_near(run(model, pipeline, options_for(compute), all, numbers), first);
  infer::Generator generator(model, pipeline, config.sequence);
  for (const std::size_t number : {0U, 2U, 3U}) {
    std::vector<std::int32_t> tokens;
    generator.generate(all[number].prompt, all[number].max_new_tokens,
                       infer::Sampler(all[number].sampler), [&](std::int32_t token) {
                         tokens.push_back(token);
                         return true;
                       });
    EXPECT_EQ(tokens, first.at(number).tokens);
  }
}

model::ModelConfig tiny(model::Architecture architecture) {
  model::ModelConfig config = test::tiny_model(architecture, positions);
  config.layers = 4;
  return config;
}

TEST(Batch, Llama) { check(tiny(model::Architecture::llama)); }
TEST(Batch, Gpt2WithATiedTable) {
  model::ModelConfig config = tiny(model::Architecture::gpt2);
  config.tie_embeddings = true;
  check(config);
}

TEST(Batch, SinglePrecision) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    check(tiny(model::Architecture::llama), type);
}

// A GPU's tensor cores take the widths 32, 64, 96 and 128.
TEST(Batch, HalvesOfWideHeads) {
  model::ModelConfig config = tiny(model::Architecture::qwen3);
  config.own_head_width = 32;
  for (const DType type : {DType::bf16, DType::f16}) check(config, type);
}

TEST(Batch, Windows) {
  model::ModelConfig config = tiny(model::Architecture::llama);
  config.window = 5;
  check(config);
  config.layer_types = {"full_attention", "sliding_attention", "sliding_attention",
                        "full_attention"};
  check(config, DType::f32);
}

TEST(Batch, LatentAttention) {
  model::ModelConfig latent =
      test::tiny_mixture(model::Architecture::deepseek_v2, positions);
  latent.layers = 4;
  latent.kv_heads = latent.heads;
  latent.own_head_width = 10;
  latent.rope_width = 4;
  latent.attention.latent = {.width = 9, .query_width = 7, .value_width = 6};
  check(latent);
  check(latent, DType::f32);
}

TEST(Batch, LinearAttention) {
  model::ModelConfig linear = tiny(model::Architecture::qwen3_5);
  linear.own_head_width = 8;
  linear.rope_width = 4;
  linear.attention.linear = {
      .key_heads = 4, .value_heads = 8, .key_width = 5, .value_width = 3, .taps = 4};
  linear.layer_types = {"linear_attention", "full_attention", "linear_attention",
                        "full_attention"};
  check(linear);
  check(linear, DType::f32);
}

model::ModelConfig tiny_longrope() {
  model::ModelConfig phi3 = tiny(model::Architecture::phi3);
  phi3.rope_width = 4;
  phi3.rope_scaling.kind = kernels::RopeScalingKind::longrope;
  phi3.rope_scaling.original = 12;
  phi3.rope_scaling.short_divisors = {1, 1.5};
  phi3.rope_scaling.long_divisors = {2, 9};
  return phi3;
}

TEST(Batch, Longrope) { check(tiny_longrope()); }

// All texts end where the last of those that take turns finds no room for itself.
TEST(Batch, LongropeTextsWithoutRoomWait) {
  const model::ModelConfig config = tiny_longrope();
  OnTensorRanks on(config, DType::f64, "trireme-waits");
  const infer::LoadedModel& model = on.model;
  comm::Group& pipeline = on.pipeline;
  std::vector<Generation> all(3);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].prompt.assign(std::array<std::size_t, 3>{1, 6, 3}[i], 7);
    all[i].max_new_tokens = 12;
    all[i].log_probabilities = 1;
  }
  BatchOptions options = options_for(DType::f64);
  options.chunk = 4;
  const auto ample = run(model, pipeline, options, all, {0, 1, 2});
  options.cache_bytes = 6 * infer::block_bytes(model, options.cache, options.block)[0];
  std::int64_t preemptions = 0;
  const auto cut = run(model, pipeline, options, all, {0, 1, 2}, &preemptions);
  EXPECT_GT(preemptions, 0);
  ASSERT_EQ(cut.size(), all.size());
  for (const auto& [number, one] : cut) expect_same(one, ample.at(number));
}

// Tensor ranks that keep unlike numbers of heads plan the same blocks, and so the same
// steps.
TEST(Batch, UnlikeHeadsOfRanks) {
  comm::World& world = test::world();
  model::ModelConfig config = tiny(model::Architecture::llama);
  config.heads = 12;
  config.kv_heads = 3;
  OnTensorRanks on(config, DType::f64, "trireme-unlike");
  const infer::LoadedModel& model = on.model;
  comm::Group& pipeline = on.pipeline;
  const std::vector<Generation> all = some_generations();
  BatchOptions options = options_for(DType::f64);
  const std::int64_t bytes = infer::block_bytes(model, options.cache, options.block)[0];
  const auto most = static_cast<std::int64_t>(world.max(static_cast<double>(bytes)));
  EXPECT_EQ(world.max(most > bytes ? 1 : 0) > 0, world.size() == 4);
  const auto ample = run(model, pipeline, options, all, {0, 1, 2, 3, 4, 5, 6});
  options.cache_bytes = 12 * most;
  const auto plan = infer::plan_blocks(model, pipeline, options, all, 1);
  const auto blocks = static_cast<double>(plan.groups.at(0).blocks);
  ASSERT_EQ(world.max(blocks), -world.max(-blocks));
  EXPECT_LE(plan.groups[0].blocks * bytes, options.cache_bytes);
  const auto cut = run(model, pipeline, options, all, {0, 1, 2, 3, 4, 5, 6});
  for (const auto& [number, one] : ample) expect_same(cut.at(number), one);
}

// Each length has angles of its own; keys in the cache keep those that they came with.
TEST(Batch, DynamicPositions) {
  model::ModelConfig config = tiny(model::Architecture::llama);
  config.rope_theta = 100;
  config.rope_scaling.kind = kernels::RopeScalingKind::dynamic;
  config.rope_scaling.factor = 3;
  config.rope_scaling.original = 6;
  check(config);
}

TEST(Batch, MixturesHaveNoCapacity) {
  model::ModelConfig config = test::tiny_mixture(model::Architecture::mixtral, positions);
  config.layers = 4;
  config.moe.capacity_factor = 0.5;
  check(config);
  check(config, DType::f32);
}

// Codes of the cache change logits by what they round, and nothing else: a text alone and
// in company are still the same. A code is off by 2^-4 of a number at most (e4m3), or by
// 1/254 of the largest of a head (int8); logits of this model stay within 1.
TEST(Batch, CachesOfCodes) {
  const model::ModelConfig config = tiny(model::Architecture::llama);
  OnTensorRanks on(config, DType::f32, "trireme-codes");
  const infer::LoadedModel& model = on.model;
  comm::Group& pipeline = on.pipeline;
  std::vector<Generation> all = some_generations();
  for (Generation& one : all) one.max_new_tokens = 1;
  std::vector<std::size_t> numbers = {0, 1, 2, 3, 4, 5, 6};
  const auto exact = run(model, pipeline, options_for(DType::f32), all, numbers);
  for (const DType type : {DType::e4m3, DType::u8, DType::bf16}) {
    const auto coded = run(model, pipeline, options_for(type), all, numbers);
    double differs = 0;
    for (const std::size_t number : numbers) {
      expect_same(run(model, pipeline, options_for(type), all, {number}).at(number),
                  coded.at(number));
      const double by = std::abs(coded.at(number).probabilities[0].likeliest[0].second -
                                 exact.at(number).probabilities[0].likeliest[0].second);
      differs = std::max(differs, by);
    }
    EXPECT_LT(differs, type == DType::e4m3 ? 0.5 : 0.1);
    EXPECT_GT(differs, 0);
  }
}

// Nothing is kept for a backward: a longer model needs more weights and cache, no more.
TEST(Batch, TakesTheActivationsOfOneBlock) {
  model::ModelConfig config = tiny(model::Architecture::llama);
  const test::WrittenModel written(config, "trireme-blocks");
  const io::CheckpointReader reader(written.directory());
  comm::Mesh mesh(test::world(), {.tensor = test::world().size()});
  comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
  const std::vector<Generation> all = some_generations();
  const auto besides = [&](std::int64_t layers) {
    config.layers = layers;
    const infer::LoadedModel meta(config, DType::f32, mesh.group(comm::Axis::tensor),
                                  config.sequence, reader, Device::meta());
    const infer::BatchGenerator batch(meta, pipeline, options_for(DType::f32), all);
    return std::pair(batch.bytes() - static_cast<std::int64_t>(batch.cache_bytes()),
                     infer::evaluation_bytes(meta, pipeline));
  };
  EXPECT_EQ(besides(2), besides(7));
}

}  // namespace
}  // namespace trireme
