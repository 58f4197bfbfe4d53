// Models that a test can differentiate by hand: two blocks, odd sizes, fp64, on one rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/philox.hpp"
#include "config/precision.hpp"
#include "engine/engine.hpp"
#include "support/step.hpp"

namespace trireme::test {

inline model::ModelConfig tiny_model(model::Architecture architecture,
                                     std::int64_t sequence = 7) {
  return {.architecture = architecture,
          .layers = 2,
          .hidden = 24,
          .heads = 4,
          .kv_heads = architecture == model::Architecture::gpt2 ? 4 : 2,
          .feed_forward = 20,
          .vocabulary = 19,
          .sequence = sequence,
          .rope_theta = 10000.0,
          .norm_eps = 1e-5,
          .tie_embeddings = false,
          .initializer_range = 0.3};
}

// The same with four experts in each feed-forward, two of which a token uses.
inline model::ModelConfig tiny_mixture(model::Architecture architecture,
                                       std::int64_t sequence = 7) {
  model::ModelConfig config = tiny_model(architecture, sequence);
  config.moe.experts = 4;
  config.moe.top_k = 2;
  return config;
}

// A step of one microbatch of two sequences.
inline config::RunConfig tiny_run(const model::ModelConfig& model) {
  config::RunConfig config;
  config.model = model;
  config.precision = config::precision_of(recipe_named("fp64"));
  config.batch = {2, 2};
  config.parallel.bucket_bytes = 1 << 20;
  return config;
}

// An engine with initial weights, and a microbatch of random tokens.
class TinyEngine {
 public:
  explicit TinyEngine(const config::RunConfig& config)
      : tokens_(config.batch.micro * config.model.sequence),
        mesh_(comm::Mesh::meta({}, 0)),
        engine_(config, mesh_, Device::host()),
        ids_(Device::host(), DType::i32, {2 * tokens_}, MemoryClass::data, "ids") {
    engine_.store().initialize(3);
    const Random random(17, 1);
    auto ids = ids_.view().span<std::int32_t>();
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(
          random.below(i, static_cast<std::uint64_t>(config.model.vocabulary)));
  }

  engine::Engine& engine() { return engine_; }
  std::int64_t tokens() const { return tokens_; }
  TensorView inputs() const { return ids_.view().rows(0, tokens_); }
  TensorView targets() const { return ids_.view().rows(tokens_, tokens_); }

  // A step without its update; `look` sees the gradients.
  double loss_and_gradients(const std::function<void()>& look = {}) {
    return gradients_of_step(engine_,
                             {.step = 1,
                              .inputs = {inputs()},
                              .targets = {targets()},
                              .valid_tokens = 1},
                             look)
        .loss;
  }

 private:
  std::int64_t tokens_;
  comm::Mesh mesh_;
  engine::Engine engine_;
  Buffer ids_;
};

}  // namespace trireme::test
