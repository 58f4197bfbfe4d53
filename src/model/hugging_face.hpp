// The classes of transformers whose folders can be read and written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

#include "model/architectures.hpp"
#include "model/hugging_face_row.hpp"

namespace trireme::model {

// The first row of an architecture that can say its window is the one that is written.
inline constexpr std::array hugging_face_rows = {
    hugging_face::llama(),       hugging_face::mistral,       hugging_face::ministral,
    hugging_face::qwen2,         hugging_face::qwen3,         hugging_face::mixtral(),
    hugging_face::qwen3_moe(),   hugging_face::qwen2_moe(),   hugging_face::gemma(),
    hugging_face::gpt2(),        hugging_face::phi3(),        hugging_face::smollm3(),
    hugging_face::deepseek_v2(), hugging_face::deepseek_v3(), hugging_face::glm4_moe(),
    hugging_face::gemma2(),      hugging_face::gemma3(),      hugging_face::olmo2(),
    hugging_face::olmo3(),       hugging_face::gpt_neox(),    hugging_face::gpt_oss(),
    hugging_face::qwen3_5(),     hugging_face::qwen3_5_moe()};

// How the model's tensor of this name lies in a folder of the family.
constexpr Transform transform_of(const HuggingFaceRow& row, std::string_view name) {
  for (const std::string_view end : row.transposed)
    if (name.ends_with(end)) return Transform::transpose;
  for (const std::string_view end : row.with_unit_dim)
    if (name.ends_with(end)) return Transform::unit_dim;
  return Transform::copy;
}

}  // namespace trireme::model
