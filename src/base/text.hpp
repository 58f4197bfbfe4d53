// Text that others wrote, made fit to be passed on; words, lines and hexadecimal digits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The text as UTF-8: each byte that is no part of a well-formed character becomes U+FFFD.
std::string valid_utf8(std::string_view text);

// Valid UTF-8 on one line that shows what it holds: line ends and tabs become blanks;
// other control characters, and those that turn the direction of writing, become "?".
std::string one_line(std::string_view text);

// Text for a terminal: bytes below 0x20 but line ends and tabs, and DEL, become "?", so
// that a name cannot move the cursor or set a title. Other bytes stay as they are.
std::string for_terminal(std::string_view text);

// The text with lines of at most `width` bytes, where it has blanks to break them at:
// what is broken goes on below, `indent` blanks in. Lines that begin with a blank are
// rows of tables, and stay whole.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

// The text without the blanks and tabs, and the '\r' of a line's end, around it.
std::string trimmed(const std::string& text);

// The words with `between` between two of them.
std::string joined(const std::vector<std::string>& words, std::string_view between);

// The parts of the text between separators, which may be empty: one more than there are
// separators, so that an empty text has one. They point into the text.
std::vector<std::string_view> split(std::string_view text, char separator);

// Two digits of each byte: "00ff".
std::string hexadecimal(std::span<const std::byte> bytes);

}  // namespace trireme
