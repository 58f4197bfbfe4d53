// Keys of the deck: the embedding.
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

namespace key {
inline constexpr EmbeddingKeys embedding;
}  // namespace key

}  // namespace trireme::config
