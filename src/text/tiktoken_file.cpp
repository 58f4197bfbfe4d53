// .tiktoken files: lines of a token's bytes in base64 and its rank.
// SPDX-License-Identifier: Apache-2.0
// Such a file lacks what else an encoding is made of, the pattern that cuts the text and
// the special tokens. They come from a JSON file beside it, or are known by its name.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/digest.hpp"
#include "text/bpe.hpp"
#include "text/byte_letters.hpp"
#include "text/character_map.hpp"
#include "text/pattern.hpp"
#include "text/tokenizer_state.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

struct Special {
  std::string content;
  std::int64_t id;
};

// What the file does not say.
struct Encodings {
  std::string pattern;
  std::vector<Special> special;
};

struct KnownEncoding {
  std::string_view name;
  std::size_t ranks;
  Encodings words;
};

// The expressions are those of the tiktoken library (0.14) in words that read the same
// without its possessive quantifiers.
const std::vector<KnownEncoding>& known_encodings() {
  static const std::string lead = "[^\\r\\n\\p{L}\\p{N}]?";
  static const std::string upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
  static const std::string lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
  static const std::string ends = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  static const std::vector<KnownEncoding> all = {
      {"r50k_base", 50256, {gpt2_regex, {{"<|endoftext|>", 50256}}}},
      {"p50k_base", 50280, {gpt2_regex, {{"<|endoftext|>", 50256}}}},
      {"cl100k_base",
       100256,
       {ends + "|" + lead +
            "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+\\z|\\s*[\\r\\n]+|"
            "\\s+(?!\\S)|\\s+",
        {{"<|endoftext|>", 100257},
         {"<|fim_prefix|>", 100258},
         {"<|fim_middle|>", 100259},
         {"<|fim_suffix|>", 100260},
         {"<|endofprompt|>", 100276}}}},
      {"o200k_base",
       199998,
       {lead + upper + "*" + lower + "+" + ends + "?|" + lead + upper + "+" + lower +
            "*" + ends +
            "?|\\p{N}{1,3}| "
            "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}}},
  };
  return all;
}

// A token's bytes and its rank; nothing where the line is none.
std::optional<std::pair<std::string, std::int32_t>> read_line(std::string_view line) {
  const auto blank = line.find(' ');
  if (blank == line.npos) return {};
  std::pair<std::string, std::int32_t> out;
  const std::string_view rank = line.substr(blank + 1);
  const auto [end, error] =
      std::from_chars(rank.data(), rank.data() + rank.size(), out.second);
  if (error != std::errc() || end != rank.data() + rank.size() || out.second < 0 ||
      !decode_base64(line.substr(0, blank), out.first) || out.first.empty())
    return {};
  return out;
}

Encodings words_of(const std::string& json, const std::string& source) {
  const Json value = parse_json(json, source);
  const ConfigNode root(value, source);
  root.only({"pattern", "special_tokens"});
  Encodings words;
  words.pattern = root.at("pattern").text();
  if (!root.has("special_tokens")) return words;
  const ConfigNode tokens = root.at("special_tokens");
  if (!tokens.value().is_object()) tokens.fail("must be an object of tokens and ids");
  for (const auto& [token, id] : tokens.value().items()) {
    const std::int64_t number = ConfigNode(id, source, "special_tokens").integer();
    if (number < 0 || number >= INT32_MAX) tokens.fail("has an id outside 32 bits");
    words.special.push_back({token, number});
  }
  return words;
}

Encodings known_words(const std::string& source, std::size_t ranks) {
  std::string name = source.substr(source.find_last_of('/') + 1);
  name = name.substr(0, name.find('.'));
  for (const KnownEncoding& known : known_encodings())
    if (name == known.name && ranks == known.ranks) return known.words;
  fail(Status::bad_content,
       "{}: such a file does not hold the pattern that cuts text, and its name and its "
       "{} tokens are those of no encoding that is known: write {}.json beside it, as "
       "{\"pattern\": \"...\", \"special_tokens\": {\"<|endoftext|>\": {}}}",
       source, ranks, source, ranks);
}

void add_special(TokenizerState& state, const std::vector<Special>& special,
                 const std::string& source) {
  for (const Special& token : special) {
    const auto refuse = [&](const std::string& why) {
      fail(Status::bad_content, "{}: the special token \"{}\" {}", source,
           one_line(token.content), why);
    };
    const auto id = static_cast<std::int32_t>(token.id);
    if (state.model->token_of(id) != nullptr)
      refuse(trireme::format("has the id {} of another token", id));
    // Decoders would read it as the bytes that its letters stand for.
    if (const auto bytes = bytes_of_letters(token.content);
        bytes && *bytes != token.content)
      refuse("is made of letters that stand for bytes");
    if (const auto why =
            state.added.add({.id = id, .content = token.content, .special = true}, true))
      refuse(*why);
  }
  state.added.finish();
}

// The vocabulary in letters, and what merges to each of its tokens.
BpeConfig read_ranks(std::string_view lines, const std::string& source) {
  BpeConfig config;
  std::vector<std::pair<std::int32_t, std::int32_t>> ranks;
  const std::int64_t most = std::ssize(lines) + (1 << 20);  // of memory for ids
  std::int64_t number = 0;
  while (!lines.empty()) {
    ++number;
    std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const auto token = read_line(line);
    require(token.has_value(), Status::bad_content,
            "{}:{}: is no token in base64, a blank and its rank", source, number);
    const std::string letters = letters_of(token->first);
    require(token->second < most && !config.vocabulary.id_of(letters) &&
                config.vocabulary.token_of(token->second) == nullptr,
            Status::bad_content,
            "{}:{}: token or rank {} is there twice, or the rank is far too large",
            source, number, token->second);
    config.vocabulary.add(letters, token->second);
    ranks.emplace_back(token->second, token->second);
  }
  for (int byte = 0; byte < 256; ++byte)
    require(config.vocabulary.id_of(utf8_of(letter_of(static_cast<unsigned char>(byte))))
                .has_value(),
            Status::bad_content, "{}: has no token for byte {}, which any text may hold",
            source, byte);
  config.ranked = merges_of_cuts(config.vocabulary, ranks, source);
  config.ignore_merges = true;  // a whole piece that has a rank is one token
  config.byte_level = true;
  return config;
}

}  // namespace

bool is_tiktoken(std::string_view bytes) {
  return read_line(bytes.substr(0, bytes.find('\n'))).has_value();
}

TokenizerState state_of_tiktoken(std::string_view lines, const std::string& source,
                                 const std::string& words) {
  BpeConfig config = read_ranks(lines, source);
  const std::string words_source = words.empty() ? source : source + ".json";
  const Encodings encoding = words.empty() ? known_words(source, config.vocabulary.size())
                                           : words_of(words, words_source);
  TokenizerState state;
  state.digest = io::digest_of(words.empty() ? std::string(lines)
                                             : std::string(lines) + '\0' + words);
  const Json none;
  state.model = std::make_unique<Bpe>(std::move(config), ConfigNode(none, source));
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", encoding.pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const Json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json both = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
  state.pre_tokenizer =
      make_pre_tokenizer(ConfigNode(both, words_source, "pattern"), true);
  const Json decoder = {{"type", "ByteLevel"}};
  state.decoder = make_decoder(ConfigNode(decoder, source));
  add_special(state, encoding.special, words_source);
  return state;
}

}  // namespace trireme::text
