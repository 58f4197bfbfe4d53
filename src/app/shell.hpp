// Words for a POSIX shell, and the program that a script starts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::app {

// `text` as one word: as it is where it has only safe characters, else in single quotes,
// in which a shell reads every byte, a line's end too, as itself.
std::string shell_quoted(const std::string& text);

// The same for a file's name, which must not look like an option: "./-x" for "-x".
std::string shell_path(const std::string& path);

// The path of this program's file; "" if it is not known.
std::string path_of_program();

}  // namespace trireme::app
