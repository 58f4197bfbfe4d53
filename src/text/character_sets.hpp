// Sets of characters that regular expressions name, and classes made of classes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::text {

using CharacterSet = std::function<bool(char32_t)>;

// An expression that is not supported, or that engines read in two ways.
struct Refusal {
  std::string why;
};

// The set that \p{L}, \P{Han}, \s, \W or the like at the head of `text` stands for, and
// takes it from there. Nothing where something else stands there. Throws Refusal. In a
// class, words have no small digits and no fractions of Latin-1 (U+00B2, U+00BC), which
// Oniguruma takes for a word's elsewhere.
std::optional<CharacterSet> take_set(std::string_view& text, bool in_class);

// Whether the class [...] at the head of `text` holds a class, or "&&" (Oniguruma's).
bool has_set_operations(std::string_view text);
// The set of such a class, which it takes from the head of `text`. Throws Refusal.
CharacterSet take_class(std::string_view& text);

}  // namespace trireme::text
