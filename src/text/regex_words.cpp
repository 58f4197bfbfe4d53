// Regular expressions of Oniguruma in the words of PCRE2, with our tables spelled out.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/number.hpp"
#include "text/character_sets.hpp"
#include "text/pattern.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

// "\x{41}-\x{5a}..." of all characters for which `belongs` holds.
std::string ranges_of(const CharacterSet& belongs) {
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
  // names: groups without a name capture nothing, as where one has a name.
  Translator(std::string_view text, bool names) : text_(text), names_(names) {}

  std::string translate() {
    while (at_ < text_.size()) one();
    if (in_class_) throw Refusal{"a class is not closed"};
    return out_;
  }
  bool has_names() const { return !named_.empty(); }

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
    if (in_class_) return c == '\\' ? escape() : inside_class();
    if (c == '{' && interval()) return;
    if (c == '*' || c == '+' || c == '?') {
      check_repeated();
      return keep(1);
    }
    is_place_ = false;
    if (c == '(') return group();
    if (c == ')') return end_of_group();
    atom_ = out_.size();
    if (caseless_) check_ligatures();
    if (c == '\\') return escape();
    if (c == '[') return begin_class();
    keep(1);
  }

  // Without case, Oniguruma finds U+FB01 and its like where these letters stand.
  void check_ligatures() const {
    for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"})
      if ((peek() | 32) == pair[0] && (peek(1) | 32) == pair[1])
        throw Refusal{format("\"{}\" where case does not matter", pair)};
  }

  void check_repeated() const {
    if (is_place_) throw Refusal{"a place such as \\b, \\y, \\G or \\K is repeated"};
  }

  void begin_class() {
    std::string_view rest = text_.substr(at_);
    if (has_set_operations(rest)) {
      if (caseless_)
        throw Refusal{"a class in a class, or &&, where case does not matter"};
      const CharacterSet set = take_class(rest);
      at_ = text_.size() - rest.size();
      return put(set);
    }
    in_class_ = true;
    keep(1);
    if (peek() == '^') keep(1);
    if (peek() == ']') throw Refusal{"a class begins with ']'"};
  }

  void inside_class() {
    if (peek() == ']') in_class_ = false;
    keep(1);
  }

  // {n}, {n,}, {n,m} or {,m}; false where the brace is a character. Oniguruma knows no
  // possessive intervals: "+" behind one repeats it, and "?" behind {n} makes it
  // optional.
  bool interval() {
    const auto close = text_.find('}', at_);
    if (close == text_.npos) return false;
    const std::string_view inner = text_.substr(at_ + 1, close - at_ - 1);
    const auto comma = std::min(inner.find(','), inner.size());
    const std::string_view least = inner.substr(0, comma);
    const std::string_view most = inner.substr(std::min(comma + 1, inner.size()));
    constexpr std::string_view digits = "0123456789";
    const bool are_numbers = least.find_first_not_of(digits) == least.npos &&
                             most.find_first_not_of(digits) == most.npos;
    if (!are_numbers || (least.empty() && most.empty())) return false;
    check_repeated();
    out_ += "{" + (least.empty() ? "0" : std::string(least));
    if (comma < inner.size()) out_ += "," + std::string(most);
    out_ += '}';
    at_ = close + 1;
    if (peek() == '+' || (peek() == '?' && comma == inner.size())) {
      if (peek(1) == '+' || peek(1) == '?' || peek(1) == '*')
        throw Refusal{"an interval with two marks behind it"};
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    return true;
  }

  void group() {
    groups_.push_back({out_.size(), caseless_, 0, false});
    if (peek(1) == '*') throw Refusal{"the group (* is not supported"};
    if (peek(1) != '?') {
      if (!names_) return capture(1);
      out_ += "(?:";
      ++at_;
      return;
    }
    for (const std::string_view word :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)", "(?-i:"}) {
      if (!follows(word)) continue;
      if (word.starts_with("(?i")) caseless_ = true;
      if (word == "(?-i:") caseless_ = false;
      if (word == "(?i)" && at_ > 0) throw Refusal{"(?i) behind other words"};
      if (word == "(?i)")
        groups_.pop_back();
      else
        groups_.back().looks = word.back() == '=' || word.back() == '!';
      return keep(word.size());
    }
    if (follows("(?<") || follows("(?'")) return named_group();
    // A dot that takes line ends, too, is "m" there and "s" in PCRE2.
    for (const auto& [word, words] :
         {std::pair<std::string_view, std::string_view>{"(?m:", "(?s:"},
          {"(?-m:", "(?-s:"}}) {
      if (!follows(word)) continue;
      out_ += words;
      at_ += word.size();
      return;
    }
    throw Refusal{format("the group {} is not supported", text_.substr(at_, 4))};
  }

  // Takes what begins a group that captures.
  void capture(std::size_t bytes) {
    groups_.back().number = closed_.size();
    closed_.push_back(false);
    out_ += '(';
    at_ += bytes;
  }

  // What stands between the mark at `begin`, "<" or "'", and its end.
  std::string_view name_at(std::size_t begin) const {
    const auto end = text_.find(text_[begin] == '<' ? '>' : '\'', begin + 1);
    if (end == text_.npos) throw Refusal{"a group's name is not closed"};
    return text_.substr(begin + 1, end - begin - 1);
  }

  // (?<name>...) or (?'name'...), by its number in PCRE2, whose names are others.
  void named_group() {
    const std::string_view name = name_at(at_ + 2);
    bool is_name = !name.empty();
    for (std::size_t at = 0; at < name.size();) {
      const CodePoint c = code_point_at(name, at);
      is_name =
          is_name && is_word(c.value) && (at > 0 || !is_in(c.value, bit(Category::Nd)));
      at += c.bytes;
    }
    if (!is_name)
      throw Refusal{
          format("the group's name \"{}\" is no word, or begins with a digit", name)};
    if (!named_.emplace(name, closed_.size()).second)
      throw Refusal{format("two groups have the name \"{}\"", name)};
    capture(name.size() + 4);
  }

  void end_of_group() {
    if (groups_.empty()) throw Refusal{"a ')' without '('"};
    const Group& group = groups_.back();
    atom_ = group.begin;
    caseless_ = group.caseless_outside;
    closed_[group.number] = true;
    groups_.pop_back();
    keep(1);
  }

  void put(const CharacterSet& set) {
    const std::string ranges = ranges_of(set);
    out_ += in_class_ ? ranges : ranges.empty() ? "(?!)" : "[" + ranges + "]";
  }

  void escape() {
    std::string_view rest = text_.substr(at_);
    if (const auto set = take_set(rest, in_class_)) {
      at_ = text_.size() - rest.size();
      return put(*set);
    }
    const char c = peek(1);
    if (c >= '1' && c <= '9') return back_reference();
    if (const std::string_view words = words_of_place(c); !words.empty() && !in_class_) {
      is_place_ = true;
      return replace_escape(words);
    }
    switch (c) {
      case 'k': return named_reference();
      case 'u': return unicode_escape();
      case 'v': return replace_escape("\\x{b}");
      case 'R':
        if (!in_class_)
          return replace_escape(R"((?>\r\n|[\n-\r\x{85}\x{2028}\x{2029}]))");
        break;
      case 'X':
        if (!in_class_) return replace_escape("(?>(?s:.)(?:(?C1)(?s:.))*)");
        break;
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

  // What an escape that takes no character is in PCRE2's words.
  std::string_view words_of_place(char c) const {
    switch (c) {
      case 'b': return "(?C2)";
      case 'B': return "(?C3)";
      case 'y': return "(?C4)";
      case 'Y': return "(?C5)";
      case 'G': return "\\G";
      case 'K': break;
      default: return {};
    }
    const bool looks = std::any_of(groups_.begin(), groups_.end(),
                                   [](const Group& group) { return group.looks; });
    if (looks && !in_class_) throw Refusal{"\\K within a group that only looks"};
    return "\\K";
  }

  void replace_escape(std::string_view words) {
    out_ += words;
    at_ += 2;
  }

  // What a group has matched, where engines agree on that: \1 to \9, of a group that is
  // closed by now.
  void back_reference() {
    const auto number = static_cast<std::size_t>(peek(1) - '0');
    const bool one_digit = peek(2) < '0' || peek(2) > '9';
    if (in_class_ || !one_digit || number >= closed_.size() || !closed_[number])
      throw Refusal{format(
          "\\{} is no reference to one of nine groups that end before it", peek(1))};
    if (names_)
      throw Refusal{"a group is referred to by number where another has a name"};
    refer_to(number, 2);
  }

  void refer_to(std::size_t number, std::size_t bytes) {
    if (caseless_)
      throw Refusal{
          "a back reference where case does not matter; write both spellings in its "
          "place"};
    out_ += format("\\g{{}}", number);
    at_ += bytes;
  }

  // \k<name> or \k'name'; \k<2> and \k<-1> where no group has a name.
  void named_reference() {
    if (in_class_ || (peek(2) != '<' && peek(2) != '\''))
      throw Refusal{"\\k without <name> or 'name'"};
    const std::string_view name = name_at(at_ + 2);
    const std::size_t groups = closed_.size();
    std::size_t number = groups;
    if (const auto found = named_.find(std::string(name)); found != named_.end())
      number = found->second;
    else if (const auto value = parse_number<std::int64_t>(name); value && !names_)
      number = *value > 0 ? static_cast<std::size_t>(*value)
                          : groups - std::min(groups, -static_cast<std::size_t>(*value));
    if (number == 0 || number >= groups || !closed_[number])
      throw Refusal{
          format("\\k<{}> is no reference to a group that ends before it", name)};
    refer_to(number, name.size() + 4);
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
  bool names_;
  std::string out_;
  std::size_t at_ = 0;
  std::size_t atom_ = 0;   // in out_: what a quantifier that follows repeats
  bool is_place_ = false;  // and that takes no character
  bool in_class_ = false, caseless_ = false;
  struct Group {
    std::size_t begin;  // in out_
    bool caseless_outside;
    std::size_t number;  // 0: it captures nothing
    bool looks;          // and takes no character
  };
  std::vector<Group> groups_;        // open
  std::vector<bool> closed_{false};  // by a group's number
  std::map<std::string, std::size_t> named_;
};

}  // namespace

std::optional<std::string> pcre2_words(std::string_view regex, std::string& why) {
  try {
    Translator all(regex, false);
    std::string words = all.translate();
    return all.has_names() ? Translator(regex, true).translate() : words;
  } catch (const Refusal& refusal) {
    why = refusal.why;
    return {};
  }
}

}  // namespace trireme::text
