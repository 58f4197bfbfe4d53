// Patterns that find pieces of text: strings, own splitters, regular expressions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned_text.hpp"
#include "text/config_node.hpp"

namespace trireme::text {

class Pattern {
 public:
  virtual ~Pattern() = default;
  // The first match at or behind `from` in valid UTF-8; it may be empty.
  virtual std::optional<Range> find(std::string_view text, std::size_t from) const = 0;
  // Adds every match, as for_each_match() finds them.
  virtual void find_all(std::string_view text, std::vector<Range>& matches) const;
};

// Every match in turn, each looked for where the one before it ended (\G); an empty one
// is not taken there.
template <class Take>
void for_each_match(const Pattern& pattern, std::string_view text, const Take& take);

// {"String": s} or {"Regex": r}. Throws Error(bad_content).
std::unique_ptr<Pattern> make_pattern(const ConfigNode& node);

// A splitter of our own, where there is one for this regular expression; else null.
std::unique_ptr<Pattern> known_splitter(std::string_view regex);

// Any regular expression that PCRE2 can be told to read as the reference's engine does.
// Throws Error(bad_content) through `node` for one that it cannot.
std::unique_ptr<Pattern> make_regex(const std::string& regex, const ConfigNode& node);

// The regular expression in PCRE2's words: classes of Unicode are spelled out, because
// PCRE2 has tables of its own version. Nothing, and why, where the meanings may differ.
std::optional<std::string> pcre2_words(std::string_view regex, std::string& why);

// The expression of GPT-2, which ByteLevel uses.
extern const char* const gpt2_regex;

std::string pcre2_version();

std::size_t next_character(std::string_view text, std::size_t at);

template <class Take>
void for_each_match(const Pattern& pattern, std::string_view text, const Take& take) {
  std::size_t from = 0, last_end = std::string_view::npos;
  while (from <= text.size()) {
    const std::optional<Range> match = pattern.find(text, from);
    if (!match) return;
    if (match->size() == 0 && match->begin == last_end) {
      from = next_character(text, from);
      continue;
    }
    take(*match);
    last_end = from = match->end;
  }
}

}  // namespace trireme::text
