// Text that others wrote (names, hosts, messages, paths), made fit to be passed on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// The text as UTF-8: each byte that is no part of a well-formed character becomes U+FFFD.
std::string valid_utf8(std::string_view text);

// Valid UTF-8 on one line that shows what it holds: line ends and tabs become blanks;
// other control characters, and those that turn the direction of writing, become "?".
std::string one_line(std::string_view text);

// Text for a terminal: bytes below 0x20 but line ends and tabs, and DEL, become "?", so
// that a name cannot move the cursor or set a title. Other bytes stay as they are.
std::string for_terminal(std::string_view text);

}  // namespace trireme
