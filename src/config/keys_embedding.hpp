// Keys of the deck: the embedding, and positions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

struct EmbeddingKeys : Section {
  constexpr EmbeddingKeys() : Section("model.embedding") {}

  Integer pad_token{
      *this,
      "pad_token",
      "",
      "-1",
      within(-1, 2147483647),
      "The token whose embedding gets no gradient where it is looked up, as PyTorch's "
      "padding_idx (pad_token_id in Hugging Face's configurations); -1: none.",
      sets<&RunConfig::model, &model::ModelConfig::residual,
           &model::ResidualSettings::pad_token>};
};

// Of [model], which has too many for one struct.
struct PositionKeys : Section {
  constexpr PositionKeys() : Section("model") {}

  Integer positions{
      *this,
      "positions",
      "tokens",
      "0",
      within(0, 1 << 27),
      "Positions that a text may have, at least model.sequence, such as a prompt with "
      "what "
      "is generated; gpt2 learns each of them. 0: as many as model.sequence.",
      sets<&RunConfig::model, &model::ModelConfig::own_positions>};
};

namespace key {
inline constexpr EmbeddingKeys embedding;
inline constexpr PositionKeys position;
}  // namespace key

}  // namespace trireme::config
