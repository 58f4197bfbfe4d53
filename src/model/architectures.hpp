// The table of architectures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/families/deepseek.hpp"
#include "model/families/gemma.hpp"
#include "model/families/glm.hpp"
#include "model/families/gpt2.hpp"
#include "model/families/gpt_neox.hpp"
#include "model/families/gpt_oss.hpp"
#include "model/families/llama.hpp"
#include "model/families/mixtral.hpp"
#include "model/families/olmo.hpp"
#include "model/families/phi.hpp"
#include "model/families/qwen.hpp"
#include "model/families/smollm.hpp"

namespace trireme::model {

// In the order of the table below.
enum class Architecture : std::uint8_t {
  llama,
  gpt2,
  mixtral,
  deepseek_moe,
  qwen2,
  qwen3,
  qwen3_moe,
  qwen2_moe,
  gemma,
  phi3,
  smollm3,
  deepseek_v2,
  deepseek_v3,
  glm4_moe,
  gemma2,
  gemma3,
  olmo2,
  gpt_neox,
  gpt_oss,
  qwen3_5,
  qwen3_5_moe
};

inline constexpr std::array architectures = {
    llama_row,         gpt2_row,       mixtral_row(),   deepseek_moe_row(),
    qwen2_row(),       qwen3_row(),    qwen3_moe_row(), qwen2_moe_row(),
    gemma_row(),       phi3_row(),     smollm3_row(),   deepseek_v2_row(),
    deepseek_v3_row(), glm4_moe_row(), gemma2_row(),    gemma3_row(),
    olmo2_row(),       gpt_neox_row(), gpt_oss_row(),   qwen3_5_row(),
    qwen3_5_moe_row()};

constexpr const ArchitectureRow& row_of(Architecture architecture) {
  return architectures[static_cast<std::size_t>(architecture)];
}
static_assert(row_of(Architecture::deepseek_moe).name == "deepseek_moe");
static_assert(row_of(Architecture::gpt_oss).name == "gpt_oss");
static_assert(row_of(Architecture::qwen3_5_moe).name == "qwen3_5_moe");

// The row of this name; throws Error(internal) if there is none.
Architecture architecture_named(std::string_view name);

// Names of the rows that have experts: "mixtral, ...".
std::string architectures_with_experts();

// Writes for the table of deck keys what it says of all rows: "llama: what it is; gpt2:
// ...".
template <class Put>
constexpr void list_architectures(Put put) {
  bool first = true;
  for (const ArchitectureRow& row : architectures) {
    if (!first) put(std::string_view("; "));
    first = false;
    put(row.name);
    put(std::string_view(": "));
    put(row.doc);
  }
  put(std::string_view("."));
}

constexpr auto architectures_text() {
  constexpr std::size_t length = [] {
    std::size_t sum = 0;
    list_architectures([&](std::string_view piece) { sum += piece.size(); });
    return sum;
  }();
  std::array<char, length> text{};
  std::size_t at = 0;
  list_architectures([&](std::string_view piece) {
    for (const char c : piece) text[at++] = c;
  });
  return text;
}
inline constexpr auto architectures_storage = architectures_text();
inline constexpr std::string_view architecture_docs(architectures_storage.data(),
                                                    architectures_storage.size());

}  // namespace trireme::model
