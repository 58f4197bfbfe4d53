// Generation with a key/value cache gives the logits of the whole sequence.
// SPDX-License-Identifier: Apache-2.0
// It does so token by token, in pieces or at once, on any number of tensor ranks.
#include "infer/generator.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/philox.hpp"
#include "infer/evaluation.hpp"
#include "support/written_model.hpp"

namespace trireme {
namespace {

model::ModelConfig tiny(model::Architecture architecture) {
  return test::tiny_model(architecture, 12);
}

model::ModelConfig tiny_mixture(double capacity_factor) {
  model::ModelConfig config = test::tiny_mixture(model::Architecture::mixtral, 12);
  config.moe.capacity_factor = capacity_factor;
  return config;
}

// One window of tokens, as a source.
class OneWindow final : public io::SampleSource {
 public:
  explicit OneWindow(std::vector<std::int32_t> tokens) : tokens_(std::move(tokens)) {}
  std::int64_t samples() const override { return 1; }
  void sample(std::int64_t, std::span<std::int32_t> tokens) const override {
    std::copy(tokens_.begin(), tokens_.end(), tokens.begin());
  }
  std::int64_t tokens() const override {
    return static_cast<std::int64_t>(tokens_.size());
  }
  std::string describe() const override { return "one window"; }

 private:
  std::vector<std::int32_t> tokens_;
};

std::string model_directory(comm::World& world) {
  return world.broadcast((std::filesystem::temp_directory_path() /
                          ("trireme-generator-" + std::to_string(::getpid())))
                             .string());
}

// The logits of `config` in generation against those of `reference` on whole sequences.
void compare_with_whole_sequence(const model::ModelConfig& config,
                                 const model::ModelConfig& reference) {
  comm::World& world = test::world();
  const std::string directory = model_directory(world);
  test::write_model(world, config, directory);
  const io::CheckpointReader reader(directory);
  comm::Mesh mesh(world, {.tensor = world.size()});
  const infer::LoadedModel model(config, DType::f64, mesh.group(comm::Axis::tensor),
                                 config.sequence, reader);
  const infer::LoadedModel whole_model(
      reference, DType::f64, mesh.group(comm::Axis::tensor), reference.sequence, reader);
  const Random random(3, 1);
  std::vector<std::int32_t> tokens;
  for (std::uint64_t i = 0; i <= 12; ++i) {
    tokens.push_back(static_cast<std::int32_t>(random.below(i, 19)));
  }
  // Logits of this rank's part of the vocabulary at every position of the whole sequence.
  const Range part = model.stage().vocabulary_range();
  std::vector<double> whole(static_cast<std::size_t>(12 * part.count()));
  infer::evaluate(whole_model, OneWindow(tokens),
                  [&](std::int64_t first, const TensorView& logits_CV) {
                    for (std::int64_t i = 0; i < logits_CV.dim(0); ++i)
                      std::copy_n(logits_CV.rows(i, 1).data<double>(), part.count(),
                                  whole.begin() + (first + i) * part.count());
                  });
  for (const std::size_t piece : {1, 5, 12}) {
    infer::Generator generator(model, mesh.group(comm::Axis::pipeline), config.sequence);
    for (std::size_t past = 0; past < 12; past += piece) {
      const std::size_t count = std::min(piece, 12 - past);
      const auto logits = generator.forward({tokens.data() + past, count},
                                            static_cast<std::int64_t>(past));
      const std::size_t row = past + count - 1;
      for (std::int64_t v = part.begin; v < part.end; ++v) {
        // Sums of a few dozen terms of order one, in another order.
        EXPECT_NEAR(logits[static_cast<std::size_t>(v)],
                    whole[row * static_cast<std::size_t>(part.count()) +
                          static_cast<std::size_t>(v - part.begin)],
                    1e-12)
            << "piece " << piece << " position " << row;
      }
    }
  }
  world.barrier();
  if (world.rank() == 0) std::filesystem::remove_all(directory);
}

void compare_with_whole_sequence(model::Architecture architecture) {
  compare_with_whole_sequence(tiny(architecture), tiny(architecture));
}

TEST(Generator, LlamaLogitsAreThoseOfTheWholeSequence) {
  compare_with_whole_sequence(model::Architecture::llama);
}
TEST(Generator, Gpt2LogitsAreThoseOfTheWholeSequence) {
  compare_with_whole_sequence(model::Architecture::gpt2);
}

TEST(Generator, Qwen2LogitsAreThoseOfTheWholeSequence) {
  compare_with_whole_sequence(model::Architecture::qwen2);
}

TEST(Generator, Qwen3LogitsAreThoseOfTheWholeSequence) {
  model::ModelConfig qwen3 = tiny(model::Architecture::qwen3);
  qwen3.own_head_width = 10;
  compare_with_whole_sequence(qwen3, qwen3);
}

TEST(Generator, WindowsAreThoseOfTheWholeSequence) {
  model::ModelConfig window = tiny(model::Architecture::llama);
  window.window = 3;
  compare_with_whole_sequence(window, window);
  window.layer_types.assign(static_cast<std::size_t>(window.layers),
                            std::string(model::sliding_attention));
  window.layer_types.front() = model::full_attention;
  compare_with_whole_sequence(window, window);
}

// The cache holds small vectors, to which queries are taken; trained are whole keys.
TEST(Generator, LatentLogitsAreThoseOfTheWholeSequence) {
  model::ModelConfig latent = test::tiny_mixture(model::Architecture::deepseek_v2, 12);
  latent.kv_heads = latent.heads;
  latent.own_head_width = 10;
  latent.rope_width = 4;
  latent.attention.latent = {.width = 9, .query_width = 7, .value_width = 6};
  compare_with_whole_sequence(latent, latent);
  latent.attention.latent.query_width = 0;
  latent.attention.latent.value_width = 10;
  compare_with_whole_sequence(latent, latent);
}

// Layers of the gated delta rule keep a state and the last rows before their convolution.
model::ModelConfig tiny_linear() {
  model::ModelConfig linear = tiny(model::Architecture::qwen3_5);
  linear.own_head_width = 8;
  linear.rope_width = 4;
  linear.attention.linear = {
      .key_heads = 4, .value_heads = 8, .key_width = 5, .value_width = 3, .taps = 4};
  linear.layer_types = {"linear_attention", "full_attention"};
  return linear;
}

TEST(Generator, LinearAttentionsLogitsAreThoseOfTheWholeSequence) {
  model::ModelConfig linear = tiny_linear();
  compare_with_whole_sequence(linear, linear);
  linear.layer_types = {"linear_attention", "linear_attention"};
  linear.attention.linear.taps = 1;
  compare_with_whole_sequence(linear, linear);
}

model::ModelConfig tiny_longrope() {
  model::ModelConfig phi3 = tiny(model::Architecture::phi3);
  phi3.rope_width = 4;
  phi3.rope_scaling.kind = kernels::RopeScalingKind::longrope;
  phi3.rope_scaling.original = 12;  // beyond the text: its short divisors
  phi3.rope_scaling.short_divisors = {1, 1.5};
  phi3.rope_scaling.long_divisors = {2, 9};
  return phi3;
}

TEST(Generator, LayersWithoutPositionsAreThoseOfTheWholeSequence) {
  model::ModelConfig smollm3 = tiny(model::Architecture::smollm3);
  smollm3.rope_layers = {0, 1};
  smollm3.attention.bias = true;
  smollm3.window = 3;
  smollm3.layer_types = {"full_attention", "sliding_attention"};
  smollm3.sliding_rope_theta = 50;
  compare_with_whole_sequence(smollm3, smollm3);
  compare_with_whole_sequence(tiny_longrope(), tiny_longrope());
}

// Where a text outgrows the original length, all of it turns by other angles: each next
// token is what the model chooses for the text so far on its own.
TEST(Generator, LongropeRunsTheTextAgainWhereItChanges) {
  comm::World& world = test::world();
  model::ModelConfig config = tiny_longrope();
  config.rope_scaling.original = 5;
  const std::string directory = model_directory(world);
  test::write_model(world, config, directory);
  const io::CheckpointReader reader(directory);
  comm::Mesh mesh(world, {.tensor = world.size()});
  const infer::LoadedModel model(config, DType::f64, mesh.group(comm::Axis::tensor),
                                 config.sequence, reader);
  const infer::Sampler greedy({.temperature = 0});
  infer::Generator generator(model, mesh.group(comm::Axis::pipeline), config.sequence),
      fresh(model, mesh.group(comm::Axis::pipeline), config.sequence);
  std::vector<std::int32_t> text = {1, 7, 3};
  std::vector<std::int32_t> alone = text;
  generator.generate(text, 8, greedy, [&](std::int32_t token) {
    text.push_back(token);
    return true;
  });
  while (alone.size() < text.size()) {
    const auto length = static_cast<std::int64_t>(alone.size());
    alone.push_back(greedy.choose(fresh.forward(alone, 0), length));
  }
  EXPECT_EQ(text, alone);
  // A cache cannot pass from one length to the other.
  fresh.forward({text.data(), 5}, 0);
  EXPECT_TRUE(fresh.changes_at(5, 6));
  EXPECT_THROW(fresh.forward({text.data() + 5, 1}, 5), Error);
  fresh.forward({text.data(), 6}, 0);
  EXPECT_FALSE(fresh.changes_at(6, 7));
  EXPECT_NO_THROW(fresh.forward({text.data() + 6, 1}, 6));
  world.barrier();
  if (world.rank() == 0) std::filesystem::remove_all(directory);
}

// Experts of a capacity below their share pass tokens by in training. In generation they
// take all: which ones would depend on how the text is cut into pieces.
TEST(Generator, ExpertsTakeAllTokens) {
  compare_with_whole_sequence(tiny_mixture(0.5), tiny_mixture(0));
}

// What follows a text is the same wherever the prompt ended, also beyond the sequence.
TEST(Generator, PromptsEndAnywhere) {
  comm::World& world = test::world();
  for (const auto& config :
       {tiny(model::Architecture::llama), tiny(model::Architecture::gpt2),
        tiny_mixture(0.5), tiny_linear()}) {
    const std::string directory = model_directory(world);
    test::write_model(world, config, directory);
    const io::CheckpointReader reader(directory);
    comm::Mesh mesh(world, {.tensor = world.size()});
    const infer::LoadedModel model(config, DType::f64, mesh.group(comm::Axis::tensor),
                                   config.sequence, reader);
    constexpr std::size_t all = 50;
    const auto continued = [&](std::vector<std::int32_t> text) {
      const auto count = static_cast<std::int64_t>(all - text.size());
      const std::vector<std::int32_t> prompt = text;
      infer::Generator generator(model, mesh.group(comm::Axis::pipeline),
                                 config.sequence);
      generator.generate(prompt, count, infer::Sampler({.temperature = 0}),
                         [&](std::int32_t token) {
                           text.push_back(token);
                           return true;
                         });
      return text;
    };
    const std::vector<std::int32_t> whole = continued({1, 7, 3});
    for (const std::ptrdiff_t end : {4, 12, 13, 17, 20, 31, 45})
      EXPECT_EQ(continued({whole.begin(), whole.begin() + end}), whole) << end;
    world.barrier();
    if (world.rank() == 0) std::filesystem::remove_all(directory);
    world.barrier();
  }
}

}  // namespace
}  // namespace trireme
