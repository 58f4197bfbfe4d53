// The tokenizer of a model, and what is checked of it.
// SPDX-License-Identifier: Apache-2.0
#include "app/model_text.hpp"

#include "base/number.hpp"
#include "base/text.hpp"
#include "convert/model_folder.hpp"

namespace trireme::app {

std::string tokenizer_path(const Arguments& arguments, const config::RunConfig& config) {
  if (arguments.has("--tokenizer")) return arguments.text("--tokenizer", "");
  if (!config.data.tokenizer.empty()) return config.data.tokenizer;
  const std::string model = arguments.words().front();
  if (!convert::is_model_folder(model)) return "";
  return text::tokenizer_file_in(model) ? model : "";
}

void require_tokenizer(const Arguments& arguments, const std::string& path) {
  const std::string model = arguments.words().front();
  require(!path.empty() || !convert::is_model_folder(model), Status::missing_input,
          "{}: has no {}, {} or {}, without which text is no tokens: bring the model's "
          "tokenizer there, or give --tokenizer",
          model, text::tokenizer_file_names[0], text::tokenizer_file_names[1],
          text::tokenizer_file_names[2]);
}

std::vector<std::int32_t> ModelText::encode(const std::string& text,
                                            text::SpecialTokens special) const {
  if (tokenizer) return tokenizer->encode(text, special);
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string ModelText::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  if (bytes) {
    for (const std::int32_t token : tokens)
      if (token < io::end_of_text) text += static_cast<char>(token);
    return text;
  }
  std::vector<std::int32_t> known;
  for (const std::int32_t token : tokens)
    if (tokenizer->token_of(token) != nullptr) known.push_back(token);
  return tokenizer->decode(known, true);
}

std::optional<std::int32_t> ModelText::end_token() const {
  if (bytes) return io::end_of_text;
  return tokenizer ? tokenizer->end_token() : std::nullopt;
}

ModelText open_text(const Arguments& arguments, const config::RunConfig& config,
                    TextNeed need) {
  ModelText text;
  text.bytes = config.data.kind == io::SourceKind::bytes;
  require(!text.bytes || !arguments.has("--tokenizer"), Status::command_line,
          "--tokenizer: the model was trained on bytes, which need none");
  const bool asked = arguments.has("--tokenizer");
  if (text.bytes || (need == TextNeed::if_asked && !asked)) return text;
  const std::string path = tokenizer_path(arguments, config);
  if (path.empty() && need == TextNeed::if_there) return text;
  require_tokenizer(arguments, path);
  require(!path.empty(), Status::command_line,
          "the checkpoint names no tokenizer (its deck has data.source = \"{}\"): give "
          "--tokenizer, or --prompt-tokens",
          name_of(config.data.kind));
  text.tokenizer.emplace(path);
  require(text.tokenizer->vocabulary() <= config.model.vocabulary, Status::bad_content,
          "{}: has {} tokens, more than the model's vocabulary of {}: it is another "
          "model's",
          path, text.tokenizer->vocabulary(), config.model.vocabulary);
  return text;
}

std::vector<std::int32_t> parse_ids(const std::string& text, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  if (text.empty()) return ids;
  for (const std::string_view word : split(text, ',')) {
    const auto id = parse_number<std::int64_t>(word);
    require(id && *id >= 0 && *id < vocabulary, Status::command_line,
            "--prompt-tokens: '{}' is no token of a vocabulary of {}", word, vocabulary);
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  return ids;
}

}  // namespace trireme::app
