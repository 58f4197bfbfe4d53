// Words for a POSIX shell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::app {

// `text` as one word: as it is where it has only safe characters, else in single quotes,
// in which a shell reads every byte, a line's end too, as itself.
std::string shell_quoted(const std::string& text);

// The same for a file's name, which must not look like an option: "./-x" for "-x".
std::string shell_path(const std::string& path);

}  // namespace trireme::app
