// Generator: continues a prompt token by token with a key/value cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "infer/cached_attention.hpp"
#include "infer/loaded_model.hpp"
#include "infer/sampler.hpp"
#include "infer/stage_chain.hpp"

namespace trireme::infer {

class Generator {
 public:
  // capacity: most positions, prompt included. All ranks of the model, its stages in
  // `pipeline`, call alike and choose the same tokens.
  Generator(const LoadedModel& model, comm::Group& pipeline, std::int64_t capacity);

  // Runs the prompt (not empty), then makes up to `count` tokens; each is given to
  // `emit`, which returns false to stop. Where the text outgrows the capacity it goes on
  // from its last half, as if that were a text of its own.
  void generate(std::span<const std::int32_t> prompt, std::int64_t count,
                const Sampler& sampler, const std::function<bool(std::int32_t)>& emit);

  // Logits [V] of the position after `tokens` at positions [past, past + n); keeps their
  // keys and values. The same however a text is cut into calls, but for rounding. Throws
  // Error(internal) unless serves(past, past + n).
  std::span<const double> forward(std::span<const std::int32_t> tokens,
                                  std::int64_t past);

  // Logits [V] of the position after `text` (not empty). What the cache has of its
  // beginning, whatever it was made for, is not run again where it serves.
  std::span<const double> logits_after(std::span<const std::int32_t> text);

  // Memory that it takes: of a model on meta, what it would take.
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(saved_.capacity() + scratch_.capacity() +
                                     attention_.bytes());
  }

  // Whether the first `past` positions of the cache are those of a text of `length`.
  // Where the original length lies between that and the length of the text that made
  // them, all turn otherwise (longrope): generate() then runs the whole text again, as
  // transformers does. Keys that turned by the length of their own text (dynamic), and
  // states (linear attention), serve only a text that goes on from the end of theirs.
  bool serves(std::int64_t past, std::int64_t length) const;

 private:
  static CachedAttention make_cache(const LoadedModel& model, std::int64_t capacity);
  // Those of the last stage go to the others.
  void share_logits(Stream& stream);

  const LoadedModel& model_;
  std::int64_t capacity_;
  CachedAttention attention_;
  std::vector<std::int32_t> cached_;  // the text that made the cache
  Buffer ids_;                        // tokens and positions, [2, capacity]
  StageChain chain_;
  std::pair<std::size_t, std::size_t> arena_bytes_;  // of these two
  Arena saved_, scratch_;
  Buffer landing_;  // of logits
  std::vector<double> logits_;
};

}  // namespace trireme::infer
