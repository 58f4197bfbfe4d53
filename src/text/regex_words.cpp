// Regular expressions of Oniguruma in the words of PCRE2, with our tables spelled out.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "base/format.hpp"
#include "text/pattern.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

struct Refusal {
  std::string why;
};

// "\x{41}-\x{5a}..." of all characters for which `belongs` holds.
std::string ranges_of(const std::function<bool(char32_t)>& belongs) {
  std::string out;
  const auto put = [&](char32_t code) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (char32_t rest = code; text.empty() || rest > 0; rest /= 16)
      text.insert(text.begin(), digits[rest % 16]);
    out += "\\x{" + text + "}";
  };
  const auto is_in_set = [&](char32_t code) {
    return (code < 0xD800 || code > 0xDFFF) && belongs(code);  // UTF-8 has no surrogates
  };
  for (char32_t code = 0; code < code_points_end; ++code) {
    if (!is_in_set(code)) continue;
    const char32_t first = code;
    while (code + 1 < code_points_end && is_in_set(code + 1)) ++code;
    put(first);
    if (code > first) out += "-", put(code);
  }
  return out;
}

class Translator {
 public:
  explicit Translator(std::string_view text) : text_(text) {}

  std::string translate() {
    while (at_ < text_.size()) one();
    if (in_class_) throw Refusal{"a class is not closed"};
    return out_;
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool follows(std::string_view word) const {
    return text_.substr(at_).starts_with(word);
  }
  void keep(std::size_t bytes) {
    out_ += text_.substr(at_, bytes);
    at_ += bytes;
  }

  void one() {
    const char c = peek();
    if (c == '\\') return escape();
    if (in_class_) return inside_class();
    if (c == '[') {
      in_class_ = true;
      keep(1);
      if (peek() == '^') keep(1);
      if (peek() == ']') throw Refusal{"a class begins with ']'"};
      return;
    }
    if (c == '(' && peek(1) == '?') return group();
    if (c == '{' && peek(1) == ',') throw Refusal{"{,n} reads in two ways"};
    if (c == '}' && peek(1) == '+') throw Refusal{"{n,m}+ reads in two ways"};
    keep(1);
  }

  void inside_class() {
    if (peek() == '[') throw Refusal{"a class in a class, or [:name:], is not supported"};
    if (follows("&&")) throw Refusal{"&& in a class is not supported"};
    if (peek() == ']') in_class_ = false;
    keep(1);
  }

  void group() {
    for (const std::string_view word :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)", "(?-i:"})
      if (follows(word)) return keep(word.size());
    throw Refusal{format("the group {} is not supported", text_.substr(at_, 4))};
  }

  void set(const std::function<bool(char32_t)>& belongs, bool negated) {
    const std::string ranges =
        ranges_of([&](char32_t code) { return belongs(code) != negated; });
    out_ += in_class_ ? ranges : ranges.empty() ? "(?!)" : "[" + ranges + "]";
  }

  void property() {
    const bool negated = peek(1) == 'P';
    const auto close = text_.find('}', at_);
    if (peek(2) != '{' || close == text_.npos) throw Refusal{"\\p without braces"};
    std::string_view name = text_.substr(at_ + 3, close - at_ - 3);
    const bool caret = name.starts_with('^');
    if (caret) name.remove_prefix(1);
    const Categories categories = categories_named(name);
    if (categories == 0) throw Refusal{format("\\p{{}} is no general category", name)};
    at_ = close + 1;
    set([&](char32_t code) { return is_in(code, categories); }, negated != caret);
  }

  void escape() {
    const char c = peek(1);
    const auto word = [&](const std::function<bool(char32_t)>& belongs, bool negated) {
      at_ += 2;
      set(belongs, negated);
    };
    const auto is_digit = [](char32_t code) { return is_in(code, bit(Category::Nd)); };
    switch (c) {
      case 'p':
      case 'P': return property();
      case 's': return word(is_space, false);
      case 'S': return word(is_space, true);
      case 'w': return word(is_word, false);
      case 'W': return word(is_word, true);
      case 'd': return word(is_digit, false);
      case 'D': return word(is_digit, true);
      case 'u': return unicode_escape();
      case 'A':
      case 'z':
      case 'Z':
        if (!in_class_) return keep(2);
        break;
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'x': return keep(2);
      default: break;
    }
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = (byte | 32) >= 'a' && (byte | 32) <= 'z';
    if (letter || (byte >= '0' && byte <= '9') || byte == 0 || byte >= 0x80)
      throw Refusal{format("\\{} is not supported", std::string(1, c))};
    keep(2);
  }

  // \u4e00, which PCRE2 writes \x{4e00}.
  void unicode_escape() {
    const std::string_view digits = text_.substr(std::min(at_ + 2, text_.size()), 4);
    if (digits.size() != 4 ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
      throw Refusal{"\\u wants four hexadecimal digits"};
    out_ += "\\x{" + std::string(digits) + "}";
    at_ += 6;
  }

  std::string_view text_;
  std::string out_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::optional<std::string> pcre2_words(std::string_view regex, std::string& why) {
  try {
    return Translator(regex).translate();
  } catch (const Refusal& refusal) {
    why = refusal.why;
    return {};
  }
}

}  // namespace trireme::text
