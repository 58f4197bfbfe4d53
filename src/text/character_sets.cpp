// Sets of characters: properties by their names, and Oniguruma's classes in classes.
// SPDX-License-Identifier: Apache-2.0
#include "text/character_sets.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/number.hpp"
#include "text/posix_sets.hpp"
#include "text/tables/read_runs.hpp"
#include "text/tables/tables.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

// Oniguruma compares names of properties without case, blanks, "-" and "_".
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (c != '_' && c != '-' && c != ' ')
      plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return plain;
}

const std::array<std::uint8_t, code_points_end>& script_table() {
  using Table = std::array<std::uint8_t, code_points_end>;
  static const auto table = [] {
    auto all = std::make_unique<Table>();
    tables::fill_runs(tables::script_runs, *all);
    return all;
  }();
  return *table;
}

// The place of a script in the table; 0: there is none of that name.
std::uint8_t script_named(std::string_view name) {
  static const auto places = [] {
    std::map<std::string, std::uint8_t> all;
    std::string_view names = tables::script_names;
    for (std::uint8_t place = 1; !names.empty(); ++place) {
      const auto end = std::min(names.find(' '), names.size());
      all[plain_name(names.substr(0, end))] = place;
      names.remove_prefix(std::min(end + 1, names.size()));
    }
    return all;
  }();
  const auto found = places.find(plain_name(name));
  return found == places.end() ? 0 : found->second;
}

CharacterSet property_named(std::string_view name, bool in_class) {
  if (const Categories categories = categories_named(name))
    return [categories](char32_t code) { return is_in(code, categories); };
  if (const std::uint8_t script = script_named(name))
    return [script](char32_t code) { return script_table()[code] == script; };
  const std::string plain = plain_name(name);
  if (CharacterSet set =
          in_class && plain == "word" ? posix_set(plain) : other_property(plain))
    return set;
  throw Refusal{format("\\p{{}} is no general category and no script", name)};
}

CharacterSet negated_if(bool negated, CharacterSet set) {
  if (!negated) return set;
  return [set = std::move(set)](char32_t code) { return !set(code); };
}

// Characters from the first to the second.
using Span = std::pair<char32_t, char32_t>;

CharacterSet united(std::vector<Span> spans, std::vector<CharacterSet> sets) {
  return [spans = std::move(spans), sets = std::move(sets)](char32_t code) {
    return std::any_of(spans.begin(), spans.end(),
                       [&](const Span& span) {
                         return code >= span.first && code <= span.second;
                       }) ||
           std::any_of(sets.begin(), sets.end(),
                       [&](const CharacterSet& set) { return set(code); });
  };
}

class ClassReader {
 public:
  explicit ClassReader(std::string_view& text) : text_(text) {}

  CharacterSet read() {
    constexpr int most_levels = 30;
    if (++level_ > most_levels) throw Refusal{"classes are nested too deeply"};
    take("[");
    const bool negated = take("^");
    if (text_.starts_with(']')) throw Refusal{"a class begins with ']'"};
    CharacterSet all = part();
    while (take("&&"))
      all = [a = std::move(all), b = part()](char32_t code) {
        return a(code) && b(code);
      };
    if (!take("]")) throw Refusal{"a class is not closed"};
    --level_;
    return negated_if(negated, std::move(all));
  }

 private:
  bool take(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  // What stands up to "&&" or the end of the class.
  CharacterSet part() {
    std::vector<Span> spans;
    std::vector<CharacterSet> sets;
    while (!text_.empty() && !text_.starts_with(']') && !text_.starts_with("&&")) {
      if (text_.starts_with("[:"))
        sets.push_back(posix());
      else if (text_.starts_with('['))
        sets.push_back(read());
      else if (auto set = take_set(text_, true))
        sets.push_back(std::move(*set));
      else
        spans.push_back(span());
    }
    return united(std::move(spans), std::move(sets));
  }

  // [:alpha:] or [:^alpha:]. Where that is not what stands there, Oniguruma may take it
  // for a class.
  CharacterSet posix() {
    const auto end = text_.find(":]");
    std::string_view name = text_.substr(2, std::min(end, text_.size()) - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    CharacterSet set = end == text_.npos ? CharacterSet() : posix_set(name);
    if (!set)
      throw Refusal{
          "\"[:\" in a class begins no name of POSIX such as [:alpha:] or [:^digit:]; "
          "write \"[\\:\" where a class is meant"};
    text_.remove_prefix(end + 2);
    if (text_.size() > 1 && text_[0] == '-' && text_[1] != ']')
      throw Refusal{"a range begins with a name of POSIX"};
    return negated_if(negated, std::move(set));
  }

  Span span() {
    const char32_t first = character();
    if (text_.starts_with("-[:")) throw Refusal{"a range ends in a name of POSIX"};
    const bool is_range = text_.size() > 1 && text_[0] == '-' && text_[1] != ']' &&
                          text_[1] != '[' && !text_.substr(1).starts_with("&&");
    if (!is_range) return {first, first};
    take("-");
    if (take_set(text_, true)) throw Refusal{"a range ends in a set of characters"};
    const char32_t last = character();
    if (last < first) throw Refusal{"a range ends before it begins"};
    return {first, last};
  }

  char32_t character() {
    if (!text_.starts_with('\\')) {
      const CodePoint c = code_point_at(text_, 0);
      text_.remove_prefix(c.bytes);
      return c.value;
    }
    const char name = text_.size() > 1 ? text_[1] : '\0';
    text_.remove_prefix(std::min<std::size_t>(2, text_.size()));
    if (name == 'u') return number(4);
    if (name == 'x') {
      if (!take("{")) return number(2);
      const char32_t code = number(std::min(text_.find('}'), text_.size()));
      if (!take("}")) throw Refusal{"\\x{ is not closed"};
      return code;
    }
    constexpr std::string_view letters = "nrtfvae", codes = "\n\r\t\f\v\a\x1B";
    if (const auto at = letters.find(name); at != letters.npos)
      return static_cast<unsigned char>(codes[at]);
    const auto byte = static_cast<unsigned char>(name);
    const bool letter = (byte | 32) >= 'a' && (byte | 32) <= 'z';
    if (letter || (byte >= '0' && byte <= '9') || byte == 0 || byte >= 0x80)
      throw Refusal{format("\\{} in a class is not supported", std::string(1, name))};
    return byte;
  }

  char32_t number(std::size_t digits) {
    const auto code = parse_hexadecimal(text_.substr(0, digits));
    if (digits > 8 || text_.size() < digits || !code || *code >= code_points_end)
      throw Refusal{"\\x or \\u has no hexadecimal number of a character"};
    text_.remove_prefix(digits);
    return static_cast<char32_t>(*code);
  }

  std::string_view& text_;
  int level_ = 0;
};

// Goes over a class; takes its end for the end of `text` where it has none.
template <class See>
void for_each_in_class(std::string_view text, const See& see) {
  for (std::size_t at = 1; at < text.size() && text[at] != ']'; ++at) {
    if (text[at] == '\\')
      ++at;
    else
      see(text.substr(at));
  }
}

}  // namespace

std::optional<CharacterSet> take_set(std::string_view& text, bool in_class) {
  if (text.size() < 2 || text[0] != '\\') return {};
  const char name = text[1];
  if (name == 'p' || name == 'P') {
    const auto close = text.find('}');
    if (text.size() < 3 || text[2] != '{' || close == text.npos)
      throw Refusal{"\\p without braces"};
    std::string_view property = text.substr(3, close - 3);
    const bool caret = property.starts_with('^');
    if (caret) property.remove_prefix(1);
    CharacterSet set = property_named(property, in_class);
    text.remove_prefix(close + 1);
    return negated_if((name == 'P') != caret, std::move(set));
  }
  CharacterSet set;
  const char small = static_cast<char>(name | 32);
  if (small == 's')
    set = is_space;
  else if (small == 'w')
    set = in_class ? posix_set("word") : CharacterSet(is_word);
  else if (small == 'd')
    set = [](char32_t code) { return is_in(code, bit(Category::Nd)); };
  else if (small == 'h')
    set = posix_set("xdigit");  // PCRE2's is a blank
  else
    return {};
  text.remove_prefix(2);
  return negated_if(name != small, std::move(set));
}

bool has_set_operations(std::string_view text) {
  bool found = false;
  for_each_in_class(text, [&](std::string_view rest) {
    found = found || rest.starts_with('[') || rest.starts_with("&&");
  });
  return found;
}

CharacterSet take_class(std::string_view& text) { return ClassReader(text).read(); }

}  // namespace trireme::text
