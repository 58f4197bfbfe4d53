// What `trireme init --data` takes, and which source of a deck reads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "app/init_answers.hpp"

namespace trireme::app {

inline constexpr std::int64_t byte_tokens = 257;  // and the end of a text

// Files, globs and folders, with commas between them, or "synthetic"; what they hold is
// told by the first file's name, and of JSON lines by the first line. Sets source, paths
// and tokenizer. Throws Error(missing_input), Error(command_line).
void take_data(const std::string& answer, const Arguments& arguments, InitAnswers& out);

}  // namespace trireme::app
