// Normalizers: the steps that rewrite text before it is cut.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/byte_letters.hpp"
#include "text/normal_form.hpp"
#include "text/older_unicode.hpp"
#include "text/pattern.hpp"
#include "text/precompiled.hpp"
#include "text/stages.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

class Forms final : public Normalizer {
 public:
  explicit Forms(NormalForm form) : form_(form) {}

  void apply(AlignedText& text) const override {
    const auto high = [](char c) { return static_cast<unsigned char>(c) >= 0xC2; };
    if (std::none_of(text.text.begin(), text.text.end(), high)) return;
    std::vector<PlacedChar> chars;
    for (std::size_t at = 0; at < text.text.size();) {
      const CodePoint c = code_point_at(text.text, at);
      chars.push_back({c.value, static_cast<std::uint32_t>(at),
                       static_cast<std::uint32_t>(at + c.bytes)});
      at += c.bytes;
    }
    Rewriter out(text);
    for (const PlacedChar& c : normalized(chars, form_))
      out.put(utf8_of(c.code), c.begin, c.end);
    text = out.take();
  }

 private:
  NormalForm form_;
};

// Writes each character anew by rewrite(out, code), which gives nothing to drop it.
template <class Rewrite>
class EachCharacter final : public Normalizer {
 public:
  explicit EachCharacter(Rewrite rewrite) : rewrite_(rewrite) {}

  void apply(AlignedText& text) const override {
    Rewriter out(text);
    std::string image;
    for (std::size_t at = 0; at < text.text.size();) {
      const CodePoint c = code_point_at(text.text, at);
      image.clear();
      rewrite_(image, c.value);
      if (image == std::string_view(text.text).substr(at, c.bytes))
        out.keep(at, at + c.bytes);
      else
        out.put(image, at, at + c.bytes);
      at += c.bytes;
    }
    text = out.take();
  }

 private:
  Rewrite rewrite_;
};

template <class Rewrite>
std::unique_ptr<Normalizer> each_character(Rewrite rewrite) {
  return std::make_unique<EachCharacter<Rewrite>>(rewrite);
}

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text) const override {
    std::size_t begin = 0, end = text.text.size();
    while (left_ && begin < end && is_space(code_point_at(text.text, begin).value))
      begin += code_point_at(text.text, begin).bytes;
    while (right_ && begin < end && is_space(code_point_before(text.text, end).value))
      end -= code_point_before(text.text, end).bytes;
    Rewriter out(text);
    out.keep(begin, end);
    text = out.take();
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(AlignedText& text) const override {
    if (text.text.empty()) return;
    Rewriter out(text);
    out.put(text_, 0, 0);
    out.keep(0, text.text.size());
    text = out.take();
  }

 private:
  std::string text_;
};

// Where the last character of a match begins: what replaces the match stands for that one
// alone, as in the reference, so that a text that begins with it does not begin at 0.
std::size_t last_character(std::string_view text, const Range& match) {
  std::size_t begin = match.begin;
  for (std::size_t at = begin; at < match.end; at = next_character(text, at)) begin = at;
  return begin;
}

class Replace final : public Normalizer {
 public:
  Replace(std::unique_ptr<Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(AlignedText& text) const override {
    Rewriter out(text);
    std::size_t done = 0;
    for_each_match(*pattern_, text.text, [&](const Range& match) {
      out.keep(done, match.begin);
      out.put(content_, last_character(text.text, match), match.end);
      done = match.end;
    });
    if (done == 0) return;
    out.keep(done, text.text.size());
    text = out.take();
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}
  void apply(AlignedText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

// The rules of the Nematus toolkit's clean-up, as SentencePiece has them.
void append_nmt(std::string& out, char32_t c) {
  if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
      c == 0x8F || c == 0x9F)
    return;
  const bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                     c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  append(out, blank ? U' ' : c);
}

bool is_ideograph(char32_t c) {
  constexpr std::pair<char32_t, char32_t> blocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(blocks), std::end(blocks), [&](const auto& block) {
    return c >= block.first && c <= block.second;
  });
}

// (BERT, Devlin et al. 2018: BasicTokenizer.)
std::unique_ptr<Normalizer> make_bert(const ConfigNode& node) {
  node.only({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lower = node.boolean("lowercase", true);
  std::vector<std::unique_ptr<Normalizer>> parts;
  if (node.boolean("clean_text", true))
    parts.push_back(each_character([](std::string& out, char32_t c) {
      const bool line = c == '\t' || c == '\n' || c == '\r';
      const bool control = !line && was_control(c);
      const bool blank = line || is_space(c);
      if (c != 0 && c != 0xFFFD && !control) append(out, blank ? U' ' : c);
    }));
  if (node.boolean("handle_chinese_chars", true))
    parts.push_back(each_character([](std::string& out, char32_t c) {
      if (is_ideograph(c)) out += ' ';
      append(out, c);
      if (is_ideograph(c)) out += ' ';
    }));
  if (node.boolean("strip_accents", lower)) {
    parts.push_back(std::make_unique<Forms>(NormalForm::nfd));
    parts.push_back(each_character([](std::string& out, char32_t c) {
      if (!was_nonspacing(c)) append(out, c);
    }));
  }
  if (lower) parts.push_back(each_character(append_lower));
  return std::make_unique<Sequence>(std::move(parts));
}

std::unique_ptr<Normalizer> make_sequence(const ConfigNode& node) {
  node.only({"normalizers"});
  std::vector<std::unique_ptr<Normalizer>> parts;
  for (const ConfigNode& part : node.at("normalizers").elements())
    if (auto made = make_normalizer(part)) parts.push_back(std::move(made));
  return std::make_unique<Sequence>(std::move(parts));
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const ConfigNode& node) {
  if (node.is_null()) return nullptr;
  const std::string type = node.type();
  if (type == "Sequence") return make_sequence(node);
  if (type == "BertNormalizer") return make_bert(node);
  if (type == "Prepend") {
    node.only({"prepend"});
    return std::make_unique<Prepend>(node.at("prepend").text());
  }
  if (type == "Replace") {
    node.only({"pattern", "content"});
    return std::make_unique<Replace>(make_pattern(node.at("pattern")),
                                     node.at("content").text());
  }
  if (type == "Strip") {
    node.only({"strip_left", "strip_right"});
    return std::make_unique<Strip>(node.boolean("strip_left", true),
                                   node.boolean("strip_right", true));
  }
  if (type == "Precompiled") {
    node.only({"precompiled_charsmap"});
    return make_precompiled(node.at("precompiled_charsmap"));
  }
  node.only({});
  if (type == "NFC") return std::make_unique<Forms>(NormalForm::nfc);
  if (type == "NFD") return std::make_unique<Forms>(NormalForm::nfd);
  if (type == "NFKC") return std::make_unique<Forms>(NormalForm::nfkc);
  if (type == "NFKD") return std::make_unique<Forms>(NormalForm::nfkd);
  if (type == "Lowercase") return each_character(append_lower);
  if (type == "Nmt") return each_character(append_nmt);
  if (type == "StripAccents")
    return each_character([](std::string& out, char32_t c) {
      if (!was_accent(c)) append(out, c);
    });
  if (type == "ByteLevel")
    return each_character(
        [](std::string& out, char32_t c) { out += letters_of(utf8_of(c)); });
  node.fail("has the type \"" + type + "\", a normalizer that is not supported");
}

}  // namespace trireme::text
