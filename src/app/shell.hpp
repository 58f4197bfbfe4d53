// Words for a POSIX shell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::app {

// `text` as one word: as it is where it has only safe characters, else in single quotes.
std::string shell_quoted(const std::string& text);

}  // namespace trireme::app
