// Generation with a key/value cache gives the logits of the whole sequence.
// SPDX-License-Identifier: Apache-2.0
// It does so token by token, in pieces or at once, on any number of tensor ranks.
#include "infer/generator.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>

#include "base/philox.hpp"
#include "infer/evaluation.hpp"
#include "support/transport.hpp"
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
  infer::evaluate(whole_model, mesh.group(comm::Axis::pipeline), OneWindow(tokens),
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
  EXPECT_FALSE(fresh.serves(5, 6));
  EXPECT_THROW(fresh.forward({text.data() + 5, 1}, 5), Error);
  fresh.forward({text.data(), 6}, 0);
  EXPECT_TRUE(fresh.serves(6, 7));
  EXPECT_NO_THROW(fresh.forward({text.data() + 6, 1}, 6));
  world.barrier();
  if (world.rank() == 0) std::filesystem::remove_all(directory);
}

// Logits after a text that follows another one in the same cache are those of a cache of
// its own: to the bit where nothing of the other serves.
TEST(Generator, ShorterTextsAreThoseOfACacheOfTheirOwn) {
  comm::World& world = test::world();
  model::ModelConfig longrope = tiny_longrope();
  longrope.rope_scaling.original = 6;
  model::ModelConfig dynamic = tiny(model::Architecture::llama);
  dynamic.rope_theta = 100;
  dynamic.rope_scaling.kind = kernels::RopeScalingKind::dynamic;
  dynamic.rope_scaling.factor = 3;
  dynamic.rope_scaling.original = 6;
  const std::vector<std::int32_t> text = {1, 7, 3, 11, 18, 2, 5, 5, 9, 14, 4, 12};
  for (const auto& config : {longrope, dynamic, tiny_linear()}) {
    const test::WrittenModel written(config, "trireme-shorter");
    const io::CheckpointReader reader(written.directory());
    comm::Mesh mesh(world, {.tensor = world.size()});
    comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
    const infer::LoadedModel model(config, DType::f64, mesh.group(comm::Axis::tensor),
                                   config.sequence, reader);
    for (const std::size_t common : {2, 5, 7}) {
      for (const std::size_t length : {4, 6, 8, 11}) {
        if (length <= common) continue;
        SCOPED_TRACE(std::to_string(common) + " of " + std::to_string(length));
        std::vector<std::int32_t> other(text.begin(), text.begin() + length);
        other[common] = 0;
        infer::Generator used(model, pipeline, config.sequence),
            fresh(model, pipeline, config.sequence);
        used.logits_after(text);
        const bool serves = used.serves(static_cast<std::int64_t>(common),
                                        static_cast<std::int64_t>(length));
        // Both are beyond the original length, and turn alike.
        EXPECT_EQ(serves, config.architecture == longrope.architecture && length > 6);
        const auto after = used.logits_after(other), alone = fresh.logits_after(other);
        for (std::size_t v = 0; v < alone.size(); ++v)
          EXPECT_NEAR(after[v], alone[v], serves ? 1e-12 : 0);
      }
    }
    // A text within the original length serves, and one that goes on from the other's
    // end.
    infer::Generator used(model, pipeline, config.sequence);
    used.logits_after(std::span(text).first(5));
    EXPECT_EQ(used.serves(3, 6), !config.has_linear());
    EXPECT_EQ(used.serves(5, 7), config.architecture != longrope.architecture);
    used.logits_after(std::span(text).first(9));
    EXPECT_TRUE(used.serves(9, 10));
    EXPECT_FALSE(used.serves(10, 11));
  }
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

// How pieces are placed: all on disk, one of a kind after the other, or one on disk.
enum class Mix : std::uint8_t { disk, turns, one };

infer::Placement mixed(std::vector<infer::Piece> pieces, Mix mix, bool host) {
  infer::Placement placement{std::move(pieces), {}};
  infer::StagePlacement& stage = placement.stages.emplace_back();
  stage.blocks = {0, placement.pieces.back().layer};
  constexpr std::array tiers = {infer::Tier::device, infer::Tier::disk,
                                infer::Tier::host};
  for (std::size_t i = 0; i < placement.pieces.size(); ++i) {
    infer::Tier tier = infer::Tier::disk;
    if (mix == Mix::one && i != 1) tier = infer::Tier::device;
    if (mix == Mix::turns) tier = tiers[i % (host ? 3 : 2)];
    stage.of_pieces.push_back(tier);
  }
  return placement;
}

// A source that counts what is read.
class CountedSource final : public io::TensorSource {
 public:
  explicit CountedSource(const io::TensorSource& source) : source_(source) {}
  void read(const std::string& path, const Shape& whole, const Shape& begin,
            const TensorView& out) const override {
    ++reads;
    source_.read(path, whole, begin, out);
  }
  mutable int reads = 0;

 private:
  const io::TensorSource& source_;
};

// Logits of pieces of a text, of whole sequences on hosts, and the loss.
std::vector<double> results_of(const infer::LoadedModel& model, comm::Group& pipeline) {
  const std::vector<std::int32_t> tokens = {1, 7, 3, 11, 18, 2, 5, 5, 9, 14, 4, 12, 6};
  std::vector<double> all;
  infer::Generator generator(model, pipeline, 12);
  for (const auto& [past, count] : {std::pair{0, 5}, {5, 1}, {6, 1}, {7, 1}, {0, 3}}) {
    const auto logits = generator.forward(
        std::span<const std::int32_t>(tokens).subspan(static_cast<std::size_t>(past),
                                                      static_cast<std::size_t>(count)),
        past);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  const auto each = [&](std::int64_t, const TensorView& logits_CV) {
    const auto logits = logits_CV.rows(0, 1).span<double>();
    all.insert(all.end(), logits.begin(), logits.end());
  };
  const bool host = model.device().is_host();
  all.push_back(infer::evaluate(model, pipeline, OneWindow(tokens),
                                host ? infer::EachLogits(each) : infer::EachLogits())
                    .loss_sum);
  return all;
}

// To the bit, wherever weights lie; also on a GPU (TRIREME_TEST_DEVICE).
TEST(Generator, PlacedWeightsGiveTheSameBits) {
  comm::World& world = test::world();
  const Device device = test::test_device();
  const DType type = device.is_cuda() ? DType::f32 : DType::f64;
  model::ModelConfig tied = tiny(model::Architecture::gpt2);
  tied.tie_embeddings = true;
  for (const auto& config : {tiny(model::Architecture::llama), tied, tiny_mixture(0.5)}) {
    const test::WrittenModel written(config, "trireme-placed");
    const io::CheckpointReader reader(written.directory());
    comm::Mesh mesh(world, {.tensor = world.size()}, {}, device, test::test_transport());
    comm::Group& tensor = mesh.group(comm::Axis::tensor);
    comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
    const infer::LoadedModel whole(config, type, tensor, config.sequence, reader, device);
    const std::vector<double> expected = results_of(whole, pipeline);
    const parallel::TensorRegion region(tensor, false);
    for (const Mix mix : {Mix::disk, Mix::turns, Mix::one}) {
      SCOPED_TRACE(static_cast<int>(mix));
      const CountedSource source(reader);
      const auto placement =
          mixed(infer::pieces_of(config, type, region), mix, device.is_cuda());
      const infer::LoadedModel placed(config, type, tensor, config.sequence, source,
                                      device, {}, infer::Held::numbers, &placement);
      const int loaded = source.reads;
      EXPECT_EQ(results_of(placed, pipeline), expected);
      const int once = source.reads;
      EXPECT_EQ(results_of(placed, pipeline), expected);
      EXPECT_GT(once, loaded);
      // What has a place of its own comes once, the rest in each pass.
      if (mix != Mix::turns) {
        EXPECT_EQ(source.reads > once, mix == Mix::disk);
      }
    }
  }
}

// Windows go through stages as they go through one.
TEST(Generator, StagesEvaluateAlike) {
  comm::World& world = test::world();
  const model::ModelConfig config = tiny(model::Architecture::llama);
  const int stages = world.size() > 1 ? 2 : 1;
  const test::WrittenModel written(config, "trireme-stages");
  const io::CheckpointReader reader(written.directory());
  const std::vector<std::int32_t> tokens = {1, 7, 3, 11, 18, 2, 5, 5, 9, 14, 4, 12, 6};
  const auto loss = [&](const comm::MeshShape& shape) {
    comm::Mesh mesh(world, shape);
    comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
    const infer::LoadedModel model(config, DType::f64, mesh.group(comm::Axis::tensor),
                                   config.sequence, reader, Device::host(),
                                   {pipeline.rank(), pipeline.size()});
    std::int64_t rows = 0, windows = 0;
    const auto result = infer::evaluate(
        model, pipeline, OneWindow(tokens),
        [&](std::int64_t, const TensorView& logits_CV) { rows += logits_CV.dim(0); },
        [&](std::int64_t done) { windows = done; });
    EXPECT_EQ(windows, 1);
    EXPECT_EQ(result.tokens, 12);
    EXPECT_EQ(rows, model.part().last() ? 12 : 0);
    return result.loss_sum;
  };
  const double whole = loss({.tensor = world.size()});
  // The sums of two tensor ranks differ from those of four by roundings.
  EXPECT_NEAR(loss({.pipeline = stages, .tensor = world.size() / stages}), whole,
              1e-13 * whole * 12);
}

}  // namespace
}  // namespace trireme
