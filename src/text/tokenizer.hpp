// Tokenizer: text to token ids and back, as the `tokenizers` library does it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned_text.hpp"

namespace trireme::text {

struct TokenizerState;  // the stages
struct Workspace;

// Ids, and for each the bytes of the text that it stands for: whole characters. Special
// tokens that the tokenizer adds stand for none.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<Range> offsets;
};

// The files that a model's folder may hold its tokenizer in, the preferred one first.
inline constexpr std::array<std::string_view, 3> tokenizer_file_names = {
    "tokenizer.json", "tokenizer.model", "spiece.model"};

// The path of the first of these that the folder has. Throws Error(missing_input) for a
// folder that cannot be opened.
std::optional<std::string> tokenizer_file_in(const std::string& folder);

// Whether a text gets the special tokens that the post-processor adds.
enum class SpecialTokens : bool { leave_out, add };

// Constant after it was made: threads may share it.
class Tokenizer {
 public:
  // The most bytes of a text that is encoded at once.
  static constexpr std::size_t most_bytes = std::size_t{1} << 30;

  // A tokenizer.json, a SentencePiece .model, a .tiktoken file, or a folder that holds
  // one of them (tokenizer_file_in). What stands
  // in the file and is not understood is an error. Throws Error(missing_input),
  // Error(bad_content) naming file and place.
  explicit Tokenizer(const std::string& path);
  // Of a tokenizer.json's text; `source` names it in errors.
  Tokenizer(std::string_view json, const std::string& source);
  explicit Tokenizer(TokenizerState state);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Bytes that are no UTF-8 are read as U+FFFD (replace_invalid). Adds to `ids`. Throws
  // Error(bad_content) above most_bytes and for text that the model cannot represent.
  void encode(std::string_view text, SpecialTokens special,
              std::vector<std::int32_t>& ids, Workspace& workspace) const;
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special) const;
  Encoding encode_with_offsets(std::string_view text, SpecialTokens special) const;

  // Throws Error(bad_content) for an id that no token has.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  // One more than the highest id.
  std::int64_t vocabulary() const;
  std::optional<std::int32_t> id_of(std::string_view token) const;
  const std::string* token_of(std::int32_t id) const;  // null: no token
  bool is_special(std::int32_t id) const;
  // A byte of a run that is decoded as a whole: the next token may change its text.
  bool may_join(std::int32_t id) const;
  // XXH3-128 of the file; of a .tiktoken file, with the file beside it.
  const std::string& digest() const;
  // Where it was read from; empty: from no file.
  const std::string& folder() const;
  // The token that ends a document: eos_token of tokenizer_config.json beside the file,
  // else the one special token with a name that is known for it. Nothing when neither
  // is there. Throws Error(bad_content) when that file cannot be read.
  std::optional<std::int32_t> end_token() const;

 private:
  void encode_parts(std::string_view text, Encoding& out, bool tracks,
                    Workspace& workspace) const;

  std::unique_ptr<TokenizerState> state_;
};

// Text of tokens that come one by one: only what no later token changes is given.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}
  // What this token adds to the text; nothing while a character is unfinished.
  std::string put(std::int32_t id);
  // What was held back.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::vector<std::int32_t> window_;  // the tokens before, to decode the new ones behind
  std::size_t given_ = 0;             // tokens of the window whose text was given
  std::string prefix_;                // ... their text
};

}  // namespace trireme::text
