// The scanner of classes: tokens, then members between matching braces.
// SPDX-License-Identifier: Apache-2.0
#include "style/class_scan.hpp"

#include <cctype>
#include <utility>

namespace trireme::style {
namespace {

struct Token {
  std::string text;  // a name or number, or one character
  std::size_t line = 0;

  bool is_name() const {
    return std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_';
  }
};

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Without comments, directives and what literals of texts and characters hold.
std::vector<Token> tokens_of(const SourceFile& file) {
  std::vector<Token> tokens;
  bool directive = false;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string code = bare_code(file.lines[i]);
    const auto first = code.find_first_not_of(' ');
    const bool was = directive;
    directive = (was || (first != std::string::npos && code[first] == '#')) &&
                code.ends_with('\\');
    if (was || (first != std::string::npos && code[first] == '#')) continue;
    for (std::size_t at = 0; at < code.size();) {
      std::size_t end = at + 1;
      if (code[at] == '\'') {  // a character, or a separator of digits
        const bool escaped = end < code.size() && code[end] == '\\';
        const std::size_t close = end + (escaped ? 2 : 1);
        at = close < code.size() && code[close] == '\'' ? close + 1 : end;
        continue;
      }
      while (in_name(code[at]) && end < code.size() && in_name(code[end])) ++end;
      if (code[at] != ' ' && code[at] != '"')
        tokens.push_back({code.substr(at, end - at), i + 1});
      at = end;
    }
  }
  return tokens;
}

class Scanner {
 public:
  explicit Scanner(const SourceFile& file) : tokens_(tokens_of(file)) {}

  std::vector<ClassSize> run() {
    while (at_ < tokens_.size())
      if (!read_class()) ++at_;
    return std::move(found_);
  }

 private:
  bool is(std::size_t i, const char* text) const {
    return i < tokens_.size() && tokens_[i].text == text;
  }
  bool is_one_of(std::size_t i, std::string_view list) const {
    return i < tokens_.size() && contains_word(list, tokens_[i].text);
  }
  // Past the bracket that closes the one at `i`.
  std::size_t past(std::size_t i, const char* open, const char* close) const {
    int depth = 0;
    for (; i < tokens_.size(); ++i) {
      if (is(i, open)) ++depth;
      if (is(i, close) && --depth == 0) return i + 1;
    }
    return i;
  }

  // If a definition of a class starts here: reads it, and its name, up to behind its last
  // brace. Else stays here.
  bool read_class() {
    if (!is_one_of(at_, "class struct union") || (at_ > 0 && is(at_ - 1, "enum")))
      return false;
    ClassSize size{"(without a name)", tokens_[at_].line};
    std::size_t i = at_ + 1;
    bool bases = false;
    for (; i < tokens_.size() && !is(i, "{"); ++i) {
      if (is(i, "<")) i = past(i, "<", ">") - 1;
      if (is_one_of(i, "alignas __align__")) i = past(i + 1, "(", ")") - 1;
      if (is_one_of(i, "; ( ) = &") || (!bases && is_one_of(i, ", >"))) return false;
      bases |= is(i, ":");
      if (!bases && tokens_[i].is_name() && !is_one_of(i, "final alignas __align__"))
        size.name = tokens_[i].text;
    }
    if (i == tokens_.size()) return false;
    at_ = i + 1;
    const std::size_t place = found_.size();
    found_.emplace_back();
    while (at_ < tokens_.size() && !is(at_, "}")) read_member(size);
    ++at_;
    found_[place] = size;
    return true;
  }

  // One declaration of a class's body, with its semicolon or its body.
  void read_member(ClassSize& size) {
    if (is_one_of(at_, "public private protected") && is(at_ + 1, ":")) {
      at_ += 2;
      return;
    }
    if (is(at_, ";")) {
      ++at_;
      return;
    }
    if (is(at_, "template")) {
      at_ = past(at_ + 1, "<", ">");
      if (is(at_, "requires")) ++at_;
      return;
    }
    const bool other = is_one_of(at_, "using typedef static_assert enum friend");
    if (!other && read_class()) {  // and what is declared of it at once
      if (!is(at_, ";")) ++size.data;
      while (at_ < tokens_.size() && !is(at_++, ";")) continue;
      return;
    }
    read_declaration(size, other);
  }

  void read_declaration(ClassSize& size, bool uncounted) {
    bool function = false, value = false, fixed = false, initializers = false;
    bool pointer = false;  // to a function
    int declared = 1;
    for (; at_ < tokens_.size(); ++at_) {
      if (is(at_, ";")) break;
      fixed |= is_one_of(at_, "static constexpr");
      value |= is(at_, "=");
      if (is(at_, "operator") && !value) {
        function = true;
        while (!is(at_ + 1, "(")) ++at_;
        if (is(at_ + 2, ")") && is(at_ + 3, "(")) at_ += 2;
      } else if (is_one_of(at_, "alignas decltype __align__ __launch_bounds__")) {
        at_ = past(at_ + 1, "(", ")") - 1;
      } else if (is(at_, "<") && !value) {
        at_ = past(at_, "<", ">") - 1;
      } else if (is(at_, "(")) {
        pointer |= is(at_ + 1, "*");
        function |= !value && !pointer;
        at_ = past(at_, "(", ")") - 1;
      } else if (is(at_, "[")) {
        at_ = past(at_, "[", "]") - 1;
      } else if (is(at_, "{")) {
        const bool initializes = initializers && tokens_[at_ - 1].is_name();
        at_ = past(at_, "{", "}") - 1;
        if (function && !initializes && !value) break;
      } else if (is(at_, ":") && function) {
        initializers = true;
      } else if (is(at_, ",") && !function) {
        ++declared;
      }
    }
    ++at_;
    if (uncounted) return;
    if (function) {
      ++size.methods;
    } else if (!fixed) {
      size.data += declared;
    }
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::vector<ClassSize> found_;
};

}  // namespace

std::vector<ClassSize> classes_of(const SourceFile& file) { return Scanner(file).run(); }

}  // namespace trireme::style
