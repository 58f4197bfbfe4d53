// TextSamples: text that the model writes while it is trained, for people who watch it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "engine/engine.hpp"
#include "io/host_copy.hpp"
#include "text/tokenizer.hpp"

namespace trireme::train {

// Goes on with each prompt by evaluations of the step's own weights, so that it works on
// every mesh on which validation does, and leaves training as it is. There is no cache: a
// token costs the forward of a microbatch, for as many prompts as that has rows.
class TextSamples {
 public:
  struct Sample {
    std::string prompt, text;  // text: what follows the prompt
  };

  // Opens the tokenizer, with metrics.sample_every > 0; local. config outlives this.
  // Throws Error(bad_content) for a prompt that leaves no room in model.sequence.
  explicit TextSamples(const config::RunConfig& config);

  // Whether samples are due after step `step`.
  bool due(std::int64_t step) const;
  // Of each prompt, the same on every rank. Collective over the world, which is the
  // mesh's. `beat` is called before each forward. `stops`: whether to leave off there,
  // the same on all ranks; then there are none.
  std::vector<Sample> write(comm::World& world, engine::Engine& engine, std::int64_t step,
                            const std::function<void()>& beat,
                            const std::function<bool()>& stops);

  // The drawn token: the largest of logit / temperature + a Gumbel number of (seed, step,
  // prompt, position, token), which is a draw from the softmax (Gumbel, 1954) that needs
  // no sum over the vocabulary; temperature 0: the largest logit.
  struct Best {
    double value;
    std::int64_t token;
  };
  static Best choose(std::span<const double> logits, std::int64_t first_token,
                     double temperature, std::uint64_t seed, std::int64_t step,
                     std::int64_t prompt, std::int64_t position);

 private:
  struct Line {
    std::vector<std::int32_t> tokens;
    std::size_t prompt_tokens = 0;
    bool ended = false;
  };
  std::string decode(std::span<const std::int32_t> ids) const;
  std::map<std::int64_t, std::size_t> fill_rows(
      const std::vector<std::int64_t>& positions, std::size_t first, std::size_t count);
  void grow(comm::World& world, engine::Engine& engine, std::int64_t step,
            std::size_t first);

  const config::RunConfig& config_;
  std::optional<text::Tokenizer> tokenizer_;  // none: bytes
  std::optional<std::int32_t> end_;           // ends a text
  std::vector<Line> lines_;                   // of each prompt
  Buffer batch_;                              // i32: inputs [T], targets [T]
  io::HostCopy host_;
};

}  // namespace trireme::train
