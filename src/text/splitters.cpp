// Splitters of our own for the regular expressions that nearly all tokenizers have.
// SPDX-License-Identifier: Apache-2.0
// Each follows its expression alternative by alternative; a comment gives it. They read
// a character once where a regular-expression engine tries each alternative anew.
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

#include "text/pattern.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

constexpr Categories upper_like =
    set_of(Category::Lu, Category::Lt, Category::Lm, Category::Lo) | marks;
constexpr Categories lower_like =
    set_of(Category::Ll, Category::Lm, Category::Lo) | marks;

// A character of the text, or its end with no bytes.
struct Char {
  char32_t code = 0;
  std::uint32_t bytes = 0;
  Categories category = 0;
  bool space = false;

  bool in(Categories set) const { return (category & set) != 0; }
  bool newline() const { return bytes == 1 && (code == '\r' || code == '\n'); }
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), table_(property_table()) {}

  Char at(std::size_t at) const {
    if (at >= text_.size()) return {};
    const CodePoint c = code_point_at(text_, at);
    const std::uint8_t value = table_[c.value];
    return {c.value, static_cast<std::uint32_t>(c.bytes),
            Categories{1} << (value & category_mask), (value & white_space_flag) != 0};
  }
  // The end of the longest run of characters from `begin` on that `belongs` takes, of at
  // most `most` characters.
  template <class Belongs>
  std::size_t run(std::size_t begin, const Belongs& belongs, int most = -1) const {
    std::size_t end = begin;
    for (; most != 0; --most) {
      const Char c = at(end);
      if (c.bytes == 0 || !belongs(c)) break;
      end += c.bytes;
    }
    return end;
  }
  std::size_t run_of(std::size_t begin, Categories set, int most = -1) const {
    for (; most < 0 && begin < text_.size(); ++begin) {  // ASCII, a byte each
      const auto byte = static_cast<unsigned char>(text_[begin]);
      if (byte >= 0x80) break;
      if ((set >> (table_[byte] & category_mask) & 1) == 0) return begin;
    }
    return run(
        begin, [&](const Char& c) { return c.in(set); }, most);
  }
  std::size_t newlines(std::size_t begin, bool slash) const {
    return run(begin, [&](const Char& c) {
      return c.newline() || (slash && c.bytes == 1 && c.code == '/');
    });
  }
  // 's|'t|'re|'ve|'m|'ll|'d: its end, or `begin`. Without case, U+017F is an s.
  std::size_t contraction(std::size_t begin, bool any_case) const {
    if (at(begin).code != '\'') return begin;
    const auto letter = [&](const Char& c) -> char32_t {
      if (any_case && c.code == 0x17F) return 's';
      return any_case && c.code >= 'A' && c.code <= 'Z' ? c.code + 32 : c.code;
    };
    const Char first = at(begin + 1);
    const char32_t a = letter(first);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return begin + 1 + first.bytes;
    const Char second = at(begin + 2);
    const char32_t b = letter(second);
    const bool two =
        (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return two ? begin + 3 : begin;
  }
  // \s*[\r\n]+|\s+(?!\S)|\s+ or, without lines, \s+(?!\S)|\s+: `begin` is a space.
  std::size_t spaces(std::size_t begin, bool lines) const {
    std::size_t end = begin, last = begin, after_line = begin;
    for (Char c = at(end); c.space; c = at(end)) {
      last = end;
      end += c.bytes;
      if (lines && c.newline()) after_line = end;
    }
    if (after_line > begin) return after_line;
    return end == text_.size() || last == begin ? end : last;
  }

 private:
  std::string_view text_;
  const std::array<std::uint8_t, code_points_end>& table_;
};

// '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
struct Gpt2 {
  static std::size_t end_at(const Scanner& scan, std::size_t begin) {
    if (const auto end = scan.contraction(begin, false); end > begin) return end;
    Char c = scan.at(begin);
    std::size_t from = begin;
    if (c.bytes == 1 && c.code == ' ') c = scan.at(++from);
    if (c.in(letters)) return scan.run_of(from + c.bytes, letters);
    if (c.in(numbers)) return scan.run_of(from + c.bytes, numbers);
    if (c.bytes != 0 && !c.space)
      return scan.run(from + c.bytes,
                      [](const Char& d) { return !d.space && !d.in(letters | numbers); });
    return scan.spaces(begin, false);
  }
};

// What differs between the expressions since then.
struct Style {
  bool contractions = true;   // stand before all, else (cased) behind a word
  int digits = 3;             // a number's pieces; -1: of any length
  Categories word = letters;  // what words are of
  bool cased = false;         // words end where small letters are followed by capitals
  bool slash = false;         // punctuation takes slashes like line ends
};

// [(?i:'s|...)|] [^\r\n\p{L}\p{N}]?WORD | \p{N}{1,n} | ?[^\s\p{L}\p{N}]+[\r\n/]* |
// \s*[\r\n]+|\s+(?!\S)|\s+ where WORD is \p{L}+ or, cased, U*L+C?|...|U+L*C?.
template <Style style>
struct Modern {
  static constexpr Categories punctuation_ends = letters | numbers | style.word;

  // U*L+ from `begin` on: its end, or `begin`. U* gives back as an engine would.
  static std::size_t lower_word(const Scanner& scan, std::size_t begin) {
    std::size_t end = begin, given_back = begin;
    for (Char c = scan.at(end); c.in(upper_like); c = scan.at(end)) {
      end += c.bytes;
      if (c.in(lower_like)) given_back = end;
    }
    const std::size_t lower_end = scan.run_of(end, lower_like);
    return lower_end > end ? lower_end : given_back;
  }
  static std::size_t upper_word(const Scanner& scan, std::size_t begin) {
    const std::size_t end = scan.run_of(begin, upper_like);
    return end > begin ? scan.run_of(end, lower_like) : begin;
  }
  static std::size_t cased_word(const Scanner& scan, std::size_t begin,
                                std::size_t inner) {
    for (const auto word : {&lower_word, &upper_word})
      for (const std::size_t from : {inner, begin}) {
        const std::size_t end = word(scan, from);
        if (end > from) return style.contractions ? scan.contraction(end, true) : end;
      }
    return begin;
  }
  static std::size_t end_at(const Scanner& scan, std::size_t begin) {
    if (style.contractions && !style.cased)
      if (const auto end = scan.contraction(begin, true); end > begin) return end;
    const Char c = scan.at(begin);
    const bool leads = !c.newline() && !c.in(letters | numbers);
    const std::size_t inner = begin + (leads ? c.bytes : 0);
    if constexpr (style.cased) {
      if (const auto end = cased_word(scan, begin, inner); end > begin) return end;
    } else {
      if (const auto end = scan.run_of(inner, style.word); end > inner) return end;
      if (const auto end = scan.run_of(begin, style.word); end > begin) return end;
    }
    if (c.in(numbers)) return scan.run_of(begin, numbers, style.digits);
    const std::size_t from = begin + (c.bytes == 1 && c.code == ' ' ? 1 : 0);
    const std::size_t end =
        scan.run(from, [](const Char& d) { return !d.space && !d.in(punctuation_ends); });
    if (end > from) return scan.newlines(end, style.slash);
    return c.space ? scan.spaces(begin, true) : begin;
  }
};

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
struct Deepseek {
  static bool latin(const Char& c) {
    return c.bytes == 1 && ((c.code | 32) >= 'a') && ((c.code | 32) <= 'z');
  }
  static std::size_t end_at(const Scanner& scan, std::size_t begin) {
    constexpr Categories signs = punctuation | symbols;
    const Char c = scan.at(begin);
    if (c.bytes == 1 && c.in(signs))
      if (const auto end = scan.run(begin + 1, latin); end > begin + 1) return end;
    const bool leads = !c.newline() && !c.in(letters | signs);
    const std::size_t inner = begin + (leads ? c.bytes : 0);
    for (const std::size_t from : {inner, begin})
      if (const auto end = scan.run_of(from, letters | marks); end > from) return end;
    const std::size_t from = begin + (c.bytes == 1 && c.code == ' ' ? 1 : 0);
    if (const auto end = scan.run_of(from, signs); end > from)
      return scan.newlines(end, false);
    return c.space ? scan.spaces(begin, true) : begin;
  }
};

// \p{N}{1,3}
struct Digits3 {
  static std::size_t end_at(const Scanner& scan, std::size_t begin) {
    return scan.run_of(begin, numbers, 3);
  }
};

// [U+4E00-U+9FA5 U+3040-U+309F U+30A0-U+30FF]+
struct Han {
  static std::size_t end_at(const Scanner& scan, std::size_t begin) {
    return scan.run(begin, [](const Char& c) {
      return (c.code >= 0x4E00 && c.code <= 0x9FA5) ||
             (c.code >= 0x3040 && c.code <= 0x30FF);
    });
  }
};

// A splitter whose language says where a match that begins somewhere ends.
template <class Language>
class Splitter final : public Pattern {
 public:
  std::optional<Range> find(std::string_view text, std::size_t from) const override {
    const Scanner scan(text);
    while (from < text.size()) {
      const std::size_t end = Language::end_at(scan, from);
      if (end > from)
        return Range{static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(end)};
      from += length_at(static_cast<unsigned char>(text[from]));
    }
    return {};
  }
  void find_all(std::string_view text, std::vector<Range>& matches) const override {
    const Scanner scan(text);
    for (std::size_t from = 0, end; from < text.size(); from = end) {
      end = Language::end_at(scan, from);
      if (end > from)
        matches.push_back(
            {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(end)});
      else
        end = from + length_at(static_cast<unsigned char>(text[from]));
    }
  }
};

template <class Language>
std::unique_ptr<Pattern> make() {
  return std::make_unique<Splitter<Language>>();
}

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SIGNS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

constexpr Style qwen{.digits = 1};
constexpr Style qwen35{.digits = 1, .word = letters | marks};
constexpr Style o200k{.cased = true, .slash = true};
constexpr Style tekken{.contractions = false, .digits = 1, .cased = true, .slash = true};

// Some files write the same language in other words.
const std::pair<std::string_view, std::unique_ptr<Pattern> (*)()> known[] = {
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     make<Gpt2>},
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     make<Gpt2>},
    {CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}{1,3}" SIGNS SPACES, make<Modern<Style{}>>},
    {CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}" SIGNS SPACES, make<Modern<qwen>>},
    {CONTRACTIONS "|" LEAD
                  "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES,
     make<Modern<qwen35>>},
    {LEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" LEAD UPPER "+" LOWER "*" CONTRACTIONS
                "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES,
     make<Modern<o200k>>},
    {LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER
                "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES,
     make<Modern<tekken>>},
    {"\\p{N}{1,3}", make<Digits3>},
    {"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", make<Han>},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
     "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES,
     make<Deepseek>},
};

}  // namespace

const char* const gpt2_regex =
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

std::unique_ptr<Pattern> known_splitter(std::string_view regex) {
  for (const auto& [text, make_splitter] : known)
    if (regex == text) return make_splitter();
  return nullptr;
}

void Pattern::find_all(std::string_view text, std::vector<Range>& matches) const {
  for_each_match(*this, text, [&](const Range& match) { matches.push_back(match); });
}

std::size_t next_character(std::string_view text, std::size_t at) {
  return at < text.size() ? at + length_at(static_cast<unsigned char>(text[at])) : at + 1;
}

}  // namespace trireme::text
