// How a model's tokens become text: its tokenizer, bytes, or ids alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/arguments.hpp"
#include "config/run_config.hpp"
#include "text/tokenizer.hpp"

namespace trireme::app {

struct ModelText {
  std::optional<text::Tokenizer> tokenizer{};  // none where bytes are tokens, or for ids
  bool bytes = false;

  bool speaks() const { return bytes || tokenizer.has_value(); }
  std::vector<std::int32_t> encode(const std::string& text,
                                   text::SpecialTokens special) const;
  // Without special tokens. Ids that no token has are left out.
  std::string decode(std::span<const std::int32_t> tokens) const;
  // The token that ends a text, if there is one.
  std::optional<std::int32_t> end_token() const;
};

// if_asked: where --tokenizer is given; if_there: where there is one; always: it is an
// error if there is none.
enum class TextNeed : std::uint8_t { if_asked, if_there, always };

// The file or folder of the tokenizer that --tokenizer names, else of the run's own, else
// of a model folder; empty: there is none.
std::string tokenizer_path(const Arguments& arguments, const config::RunConfig& config);

// Throws Error(missing_input) where `path` of tokenizer_path() is empty and the model is
// a folder, which should have one.
void require_tokenizer(const Arguments& arguments, const std::string& path);

// Of --tokenizer, else the run's tokenizer, else that of the model folder. Throws
// Error(command_line) where text is needed and there is none, as require_tokenizer()
// does.
ModelText open_text(const Arguments& arguments, const config::RunConfig& config,
                    TextNeed need);

// The ids of a list such as 1,2,3. Throws Error(command_line).
std::vector<std::int32_t> parse_ids(const std::string& text, std::int64_t vocabulary);

}  // namespace trireme::app
