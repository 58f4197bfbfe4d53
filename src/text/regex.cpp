// Regular expressions through PCRE2, and patterns that are plain strings.
// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "text/clusters.hpp"
#include "text/pattern.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

template <auto free_it>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free_it(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;

std::string message_of(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// The reference's engine takes ^ and $ for the ends of lines and "\n" for their end.
Code compiled(const std::string& words, const std::string& regex,
              const ConfigNode& node) {
  int error = 0;
  PCRE2_SIZE place = 0;
  const std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  require(context != nullptr, Status::resources, "PCRE2: out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  std::uint32_t options = PCRE2_UTF | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  // For PCRE2 nothing stands where it asks, so that "a*" before it would give nothing
  // back.
  if (words.find("(?C") != words.npos) options |= PCRE2_NO_AUTO_POSSESS;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(words.data()), words.size(),
                          options, &error, &place, context.get()));
  if (!code)
    node.fail("holds the expression " + one_line(regex) +
              ", which PCRE2 does not take: " + message_of(error));
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without it, it is only slower
  return code;
}

// What a pattern asks for at a place of the text, because PCRE2's own tables are others:
// pcre2_words() has the numbers. 0: it goes on there, 1: it does not.
int ask(pcre2_callout_block* asked, void*) {
  const std::string_view text(reinterpret_cast<const char*>(asked->subject),
                              asked->subject_length);
  const std::size_t at = asked->current_position;
  if (asked->callout_number == 1) return goes_on(text, at) ? 0 : 1;
  if (asked->callout_number >= 4)
    return goes_on(text, at) == (asked->callout_number == 5) ? 0 : 1;
  const bool before = at > 0 && is_word(code_point_before(text, at).value);
  const bool after = at < text.size() && is_word(code_point_at(text, at).value);
  return (before != after) == (asked->callout_number == 2) ? 0 : 1;
}

MatchContext asking() {
  MatchContext context(pcre2_match_context_create(nullptr));
  require(context != nullptr, Status::resources, "PCRE2: out of memory");
  pcre2_set_callout(context.get(), ask, nullptr);
  return context;
}

class Regex final : public Pattern {
 public:
  Regex(Code code, std::string regex)
      : code_(std::move(code)), regex_(std::move(regex)) {}

  std::optional<Range> find(std::string_view text, std::size_t from) const override {
    thread_local const MatchData match(pcre2_match_data_create(1, nullptr));
    thread_local const MatchContext context = asking();
    require(match != nullptr, Status::resources, "PCRE2: out of memory");
    const int result =
        pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    from, PCRE2_NO_UTF_CHECK, match.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) return {};
    require(result >= 0, Status::bad_content,
            "the tokenizer's expression {} cannot be matched: {}", one_line(regex_),
            message_of(result));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
    return Range{static_cast<std::uint32_t>(ends[0]),
                 static_cast<std::uint32_t>(ends[1])};
  }

 private:
  Code code_;
  std::string regex_;
};

class Literal final : public Pattern {
 public:
  explicit Literal(std::string text) : text_(std::move(text)) {}
  std::optional<Range> find(std::string_view text, std::size_t from) const override {
    const auto at = text.find(text_, from);
    if (text_.empty() || at == text.npos) return {};
    return Range{static_cast<std::uint32_t>(at),
                 static_cast<std::uint32_t>(at + text_.size())};
  }

 private:
  std::string text_;
};

}  // namespace

std::unique_ptr<Pattern> make_regex(const std::string& regex, const ConfigNode& node) {
  std::string why;
  const auto words = pcre2_words(regex, why);
  if (!words) node.fail("holds the expression " + one_line(regex) + ": " + why);
  return std::make_unique<Regex>(compiled(*words, regex, node), regex);
}

std::unique_ptr<Pattern> make_pattern(const ConfigNode& node) {
  node.only({"String", "Regex"});
  if (node.has("String")) return std::make_unique<Literal>(node.at("String").text());
  const std::string regex = node.at("Regex").text();
  if (auto splitter = known_splitter(regex)) return splitter;
  return make_regex(regex, node);
}

std::string pcre2_version() {
  char text[64] = {};
  pcre2_config(PCRE2_CONFIG_VERSION, text);
  const std::string_view all = text;
  return std::string(all.substr(0, all.find(' ')));
}

}  // namespace trireme::text
