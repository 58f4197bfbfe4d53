// Decoders: the steps that turn the texts of tokens back into text.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/number.hpp"
#include "text/byte_letters.hpp"
#include "text/pattern.hpp"
#include "text/stages.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

using Tokens = std::vector<std::string>;

// A decoder that is a function.
template <class Function>
class Step final : public Decoder {
 public:
  explicit Step(Function function) : function_(std::move(function)) {}
  void apply(Tokens& tokens) const override { function_(tokens); }

 private:
  Function function_;
};

template <class Function>
std::unique_ptr<Decoder> step(Function function) {
  return std::make_unique<Step<Function>>(std::move(function));
}

void fuse(Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.assign(1, std::move(all));
}

// A token that holds another character than the letters is read as it stands.
void decode_byte_level(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens)
    bytes += bytes_of_letters(token).value_or(token);
  tokens.assign(1, replace_invalid(bytes));
}

// The byte of "<0x41>", or -1.
int fallback_byte(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  const auto byte = parse_hexadecimal(std::string_view(token).substr(3, 2));
  return byte ? static_cast<int>(*byte) : -1;
}

// A run of bytes is text when it is UTF-8 as a whole, else one U+FFFD for each byte.
void decode_byte_fallback(Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (valid_bytes(bytes) == bytes.size())
      out.push_back(bytes);
    else
      out.insert(out.end(), bytes.size(), "\uFFFD");
    bytes.clear();
  };
  for (std::string& token : tokens) {
    const int byte = fallback_byte(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens = std::move(out);
}

std::string replaced(const std::string& text, const Pattern& pattern,
                     const std::string& content) {
  std::string out;
  std::size_t done = 0;
  for_each_match(pattern, text, [&](const Range& match) {
    out.append(text, done, match.begin - done);
    out += content;
    done = match.end;
  });
  return out.append(text, done);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::unique_ptr<Decoder> make_replace(const ConfigNode& node) {
  node.only({"pattern", "content"});
  const std::shared_ptr<const Pattern> pattern = make_pattern(node.at("pattern"));
  return step([pattern, content = node.at("content").text()](Tokens& tokens) {
    for (std::string& token : tokens) token = replaced(token, *pattern, content);
  });
}

std::unique_ptr<Decoder> make_strip(const ConfigNode& node) {
  node.only({"content", "start", "stop"});
  const std::string content = node.at("content").text();
  const std::int64_t start = node.at("start").integer(), stop = node.at("stop").integer();
  if (content.empty()) node.fail("has no content");
  return step([content, start, stop](Tokens& tokens) {
    for (std::string& token : tokens) {
      for (std::int64_t i = 0; i < start && token.starts_with(content); ++i)
        token.erase(0, content.size());
      for (std::int64_t i = 0; i < stop && token.ends_with(content); ++i)
        token.erase(token.size() - content.size());
    }
  });
}

std::unique_ptr<Decoder> make_metaspace(const ConfigNode& node) {
  node.only({"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  const std::string mark = node.text("replacement", "\u2581");
  const bool keeps =
      node.text("prepend_scheme",
                node.boolean("add_prefix_space", true) ? "always" : "never") == "never";
  if (mark.empty()) node.fail("has an empty replacement");
  return step([mark, keeps](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], mark, i == 0 && !keeps ? "" : " ");
  });
}

std::string cleaned_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> changes[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : changes) text = replaced(std::move(text), from, to);
  return text;
}

std::unique_ptr<Decoder> make_word_piece(const ConfigNode& node) {
  node.only({"prefix", "cleanup"});
  const bool cleanup = node.boolean("cleanup", true);
  return step([prefix = node.text("prefix", "##"), cleanup](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i].starts_with(prefix))
        tokens[i].erase(0, prefix.size());
      else if (i > 0)
        tokens[i].insert(0, " ");
      if (cleanup) tokens[i] = cleaned_up(std::move(tokens[i]));
    }
  });
}

// Of a model that says at each moment of a recording what it hears: the same token again
// is the same sound going on, and the padding parts two that are heard one by one.
std::unique_ptr<Decoder> make_ctc(const ConfigNode& node) {
  node.only({"pad_token", "word_delimiter_token", "cleanup"});
  const std::string pad = node.at("pad_token").text();
  const std::string delimiter = node.at("word_delimiter_token").text();
  const bool cleanup = node.at("cleanup").boolean();
  if (pad.empty() || delimiter.empty())
    node.fail("has an empty pad_token or word_delimiter_token");
  return step([pad, delimiter, cleanup](Tokens& tokens) {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      token = replaced(std::move(token), pad, "");
      if (cleanup) token = replaced(cleaned_up(std::move(token)), delimiter, " ");
    }
    std::erase(tokens, "");
  });
}

std::unique_ptr<Decoder> make_sequence(const ConfigNode& node) {
  node.only({"decoders"});
  std::vector<std::shared_ptr<const Decoder>> parts;
  for (const ConfigNode& part : node.at("decoders").elements())
    if (auto made = make_decoder(part)) parts.push_back(std::move(made));
  return step([parts](Tokens& tokens) {
    for (const auto& part : parts) part->apply(tokens);
  });
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const ConfigNode& node) {
  if (node.is_null()) return nullptr;
  const std::string type = node.type();
  if (type == "Sequence") return make_sequence(node);
  if (type == "Replace") return make_replace(node);
  if (type == "Strip") return make_strip(node);
  if (type == "Metaspace") return make_metaspace(node);
  if (type == "WordPiece") return make_word_piece(node);
  if (type == "CTC") return make_ctc(node);
  if (type == "BPEDecoder") {
    node.only({"suffix"});
    return step([suffix = node.text("suffix", "</w>")](Tokens& tokens) {
      for (std::size_t i = 0; i < tokens.size(); ++i)
        if (!suffix.empty())
          tokens[i] = replaced(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
    });
  }
  if (type == "ByteLevel") {
    node.only({"add_prefix_space", "trim_offsets", "use_regex"});
    return step(decode_byte_level);
  }
  node.only({});
  if (type == "ByteFallback") return step(decode_byte_fallback);
  if (type == "Fuse") return step(fuse);
  node.fail("has the type \"" + type + "\", a decoder that is not supported");
}

}  // namespace trireme::text
