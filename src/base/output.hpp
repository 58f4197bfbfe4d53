// Standard output: what is written there is checked.
// SPDX-License-Identifier: Apache-2.0
// A full disk or a reader that has gone would otherwise lose it in silence.
#pragma once

#include <string>
#include <string_view>

namespace trireme::output {

// Puts something at the numbers 0, 1 and 2 where the program was started without them
// (`>&-`): else the next file that is opened would get such a number, and the log with
// it. Nothing can be read from or written to what is put there. The first call of main.
void keep_descriptors();

// Writes all of `text` at once. What is lost is remembered and not thrown.
void write(std::string_view text);

// For a command whose work outweighs its log: it goes on when the reader of a pipe has
// gone (else SIGPIPE ends the process, as is usual), and the first loss is told on
// standard error at once, with `consequence`, which is kept as it is.
void outlive_reader(const char* consequence);

// Why something was lost, the first time that it was: "No space left on device". Empty
// when all has arrived, as far as the system tells. A file system on the network may tell
// only here.
std::string why_lost();

// Throws Error(io) when something was lost.
void require_whole();

}  // namespace trireme::output
