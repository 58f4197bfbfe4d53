// Cuts a template into words, and takes away the white space that its marks ask for.
// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/lexer.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/number.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::data::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(source) {}

  std::vector<Word> words() {
    while (at_ < text_.size()) cut_data();
    push(WordKind::end, "");
    return std::move(words_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(Status::bad_content, "{}: {}", line_, what);
  }

  void push(WordKind kind, std::string text) {
    words_.push_back({kind, std::move(text), line_});
  }
  // Goes on behind `count` bytes.
  void skip(std::size_t count) {
    line_ += static_cast<int>(
        std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                   text_.begin() + static_cast<std::ptrdiff_t>(at_ + count), '\n'));
    at_ += count;
  }
  std::string_view rest() const { return text_.substr(at_); }
  bool looking_at(std::string_view mark) const { return rest().starts_with(mark); }

  // The data up to the next {{, {% or {#, and what that begins.
  void cut_data() {
    std::size_t mark = at_;
    for (;; ++mark) {
      mark = text_.find('{', mark);
      if (mark == text_.npos || mark + 1 >= text_.size()) break;
      const char next = text_[mark + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    if (mark == text_.npos || mark + 1 >= text_.size()) {
      push(WordKind::data, std::string(rest()));
      skip(text_.size() - at_);
      return;
    }
    put_data(mark, text_[mark + 1] != '{');
    const char kind = text_[at_ + 1];
    const bool sign =
        at_ + 2 < text_.size() && (text_[at_ + 2] == '-' || text_[at_ + 2] == '+');
    skip(sign ? 3 : 2);
    if (kind == '#')
      skip_comment();
    else if (kind == '{')
      cut_expression(WordKind::print_begin, WordKind::print_end, "}}");
    else if (!cut_raw())
      cut_expression(WordKind::block_begin, WordKind::block_end, "%}");
    line_starting_ = at_ > 0 && text_[at_ - 1] == '\n';
  }

  // Pushes the data before `mark`, where a tag begins, and goes there. A sign - takes
  // away the white space before it; a block, that of its line unless its sign is +.
  void put_data(std::size_t mark, bool block) {
    std::string_view data = text_.substr(at_, mark - at_);
    const char sign = mark + 2 < text_.size() ? text_[mark + 2] : ' ';
    if (sign == '-') {
      data = strip_right(data);
    } else if (sign != '+' && block) {
      const std::size_t line = data.rfind('\n') + 1;  // npos + 1 is 0
      if ((line > 0 || line_starting_) && strip_left(data.substr(line)).empty())
        data = data.substr(0, line);
    }
    if (!data.empty()) push(WordKind::data, std::string(data));
    skip(mark - at_);
  }

  // Behind the end of a block or comment: white space after -, else one line end unless
  // there was a +.
  void skip_behind(char sign) {
    if (sign == '-')
      skip(rest().size() - strip_left(rest()).size());
    else if (sign != '+' && looking_at("\n"))
      skip(1);
  }

  void skip_comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == text_.npos) refuse("a comment that begins here does not end");
    const char sign = end > at_ ? text_[end - 1] : ' ';
    skip(end + 2 - at_);
    skip_behind(sign);
  }

  // {% raw %} up to {% endraw %} is data.
  bool cut_raw() {
    const auto word_then_end = [](std::string_view text, std::string_view word) {
      text = strip_left(text);
      if (!text.starts_with(word)) return std::string_view::npos;
      text = strip_left(text.substr(word.size()));
      const bool sign = text.starts_with('-') || text.starts_with('+');
      if (!text.substr(sign ? 1 : 0).starts_with("%}")) return std::string_view::npos;
      return text.size() - (sign ? 3 : 2);  // how much is left
    };
    const std::size_t left = word_then_end(rest(), "raw");
    if (left == text_.npos) return false;
    skip(rest().size() - left);
    if (text_[at_ - 3] == '-') skip_behind('-');
    for (std::size_t mark = text_.find("{%", at_); mark != text_.npos;
         mark = text_.find("{%", mark + 1)) {
      const std::size_t begin =
          mark + 2 < text_.size() && (text_[mark + 2] == '-' || text_[mark + 2] == '+')
              ? mark + 3
              : mark + 2;
      const std::size_t behind = word_then_end(text_.substr(begin), "endraw");
      if (behind == text_.npos) continue;
      line_starting_ = false;
      put_data(mark, true);
      skip(rest().size() - behind);
      skip_behind(text_[at_ - 3]);
      return true;
    }
    refuse("{% raw %} has no {% endraw %}");
  }

  void cut_expression(WordKind begin, WordKind end, std::string_view close) {
    const int line = line_;
    push(begin, "");
    std::string open;  // the brackets that are not closed yet
    for (;;) {
      while (at_ < text_.size() && is_python_space(text::code_point_at(text_, at_).value))
        skip(text::code_point_at(text_, at_).bytes);
      if (at_ >= text_.size()) {
        line_ = line;
        refuse("a tag that begins here does not end");
      }
      const char sign = text_[at_];
      const bool signed_end = (sign == '-' || (sign == '+' && close == "%}")) &&
                              rest().substr(1).starts_with(close);
      if (open.empty() && (signed_end || looking_at(close))) {
        push(end, "");
        skip(signed_end ? 3 : 2);
        if (close == "%}" || sign == '-') skip_behind(signed_end ? sign : ' ');
        return;
      }
      cut_word(open);
    }
  }

  void cut_word(std::string& open) {
    const char c = text_[at_];
    if (is_letter(c)) {
      std::size_t count = 1;
      while (count < rest().size() &&
             (is_letter(rest()[count]) || is_digit(rest()[count])))
        ++count;
      push(WordKind::name, std::string(rest().substr(0, count)));
      return skip(count);
    }
    if (is_digit(c)) return cut_number();
    if (c == '"' || c == '\'') return cut_string();
    static constexpr std::array<std::string_view, 24> marks = {
        "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~",
        "<",  ">",  "=",  ".",  ":",  "|",  ",", "(", ")", "[", "]", "{"};
    const auto found =
        std::find_if(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return looking_at(mark); });
    const std::string_view mark = found != marks.end() ? *found
                                  : looking_at("}")    ? "}"
                                                       : "";
    if (mark.empty())
      refuse(
          "the character '" +
          std::string(rest().substr(0, text::length_at(static_cast<unsigned char>(c)))) +
          "' has no meaning here");
    if (mark == "(" || mark == "[" || mark == "{") open += mark;
    if (mark == ")" || mark == "]" || mark == "}") {
      const char wanted = mark == ")" ? '(' : mark == "]" ? '[' : '{';
      if (open.empty() || open.back() != wanted)
        refuse("'" + std::string(mark) + "' closes nothing");
      open.pop_back();
    }
    push(WordKind::mark, std::string(mark));
    skip(mark.size());
  }

  void cut_number() {
    const std::string_view all = rest();
    const auto digits = [&](std::size_t from) {
      while (from < all.size() && (is_digit(all[from]) || all[from] == '_')) ++from;
      return from;
    };
    std::size_t end = digits(0);
    bool real = false;
    const bool field = !words_.empty() && words_.back().text == "." &&
                       words_.back().kind == WordKind::mark;  // the 0 of x.0.1
    if (!field && end + 1 < all.size() && all[end] == '.' && is_digit(all[end + 1])) {
      end = digits(end + 1);
      real = true;
    }
    if (!field && end < all.size() && (all[end] == 'e' || all[end] == 'E')) {
      const std::size_t sign =
          end + 1 < all.size() && (all[end + 1] == '+' || all[end + 1] == '-') ? 1 : 0;
      if (end + 1 + sign < all.size() && is_digit(all[end + 1 + sign])) {
        end = digits(end + 1 + sign);
        real = true;
      }
    }
    std::string number(all.substr(0, end));
    std::erase(number, '_');
    std::erase(number, '+');
    if (end < all.size() && is_letter(all[end]))
      refuse("'" + number + all[end] + "' is no number");
    push(real ? WordKind::real : WordKind::integer, std::move(number));
    skip(end);
  }

  void cut_string() {
    const char quote = text_[at_];
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) refuse("a string that begins here does not end");
    push(WordKind::text, unescaped(text_.substr(at_ + 1, end - at_ - 1)));
    skip(end + 1 - at_);
  }

  std::string unescaped(std::string_view text) const {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] != '\\' || at + 1 == text.size()) {
        out += text[at];
        continue;
      }
      const char c = text[++at];
      static constexpr std::string_view letters = "abfnrtv\\'\"",
                                        bytes = "\a\b\f\n\r\t\v\\'\"";
      const std::size_t known = letters.find(c);
      if (known != letters.npos)
        out += bytes[known];
      else if (c == 'x' || c == 'u' || c == 'U')
        at += append_code(out,
                          text.substr(at + 1, c == 'x'   ? 2
                                              : c == 'u' ? 4
                                                         : 8),
                          c == 'x'   ? 2
                          : c == 'u' ? 4
                                     : 8);
      else if (c >= '0' && c <= '7')
        refuse("octal escapes are not supported: write \\x41 for \\101");
      else if (c == 'N')
        refuse("\\N{...} is not supported: write \\u");
      else if (c != '\n')
        out += std::string("\\") + c;
    }
    return out;
  }

  std::size_t append_code(std::string& out, std::string_view digits,
                          std::size_t count) const {
    const auto code = parse_hexadecimal(digits);
    if (digits.size() != count || !code || *code >= text::code_points_end ||
        (*code >= 0xD800 && *code < 0xE000))
      refuse("'\\" + std::string(digits) + "' is no character");
    text::append(out, static_cast<char32_t>(*code));
    return count;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Word> words_;
};

}  // namespace

bool is_python_space(char32_t code) {
  return text::is_space(code) || (code >= 0x1C && code <= 0x1F);
}

std::string_view strip_left(std::string_view text) {
  while (!text.empty() && is_python_space(text::code_point_at(text, 0).value))
    text.remove_prefix(text::code_point_at(text, 0).bytes);
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty() &&
         is_python_space(text::code_point_before(text, text.size()).value))
    text.remove_suffix(text::code_point_before(text, text.size()).bytes);
  return text;
}

std::vector<Word> cut_template(std::string_view source) {
  std::string text;  // with line ends that are all alike, and without the last
  for (std::size_t i = 0; i < source.size(); ++i) {
    const bool pair = source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n';
    if (!pair) text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return Lexer(text).words();
}

}  // namespace trireme::data::jinja
