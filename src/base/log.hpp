// The log: rank 0 speaks on standard output; errors go to standard error from any rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/format.hpp"

namespace trireme::log {

// Each level shows what those before it show, too.
enum class Level : std::uint8_t { error, warning, info, debug };

// Ranks other than 0 say nothing. Before this is called the process speaks.
void set_rank(int rank);
// What is written, here and to the file of open_file(); info unless set.
void set_level(Level level);
// From now on what this rank says, and would say if it were rank 0, is written to a file,
// too: a line each with the time. Once in a process. Throws Error(cannot_create).
void open_file(const std::string& path);

// Whether lines of this level are written anywhere.
bool speaks(Level level);
inline bool speaks() { return speaks(Level::info); }

// Writes one line to standard output, at once, if this rank speaks.
void line(std::string_view text, Level level = Level::info);
// Writes one line whatever the level, on rank 0.
void always(std::string_view text);
// The line that moves: on a terminal, shows `text` in the last line, until the next call
// or line(). Does nothing where standard output is a file or a pipe.
void live(std::string_view text);
// Whether live() shows anything.
bool is_live();

// Formatted line: info("step {}", 3).
template <class... Args>
void info(std::string_view text, const Args&... args) {
  if (speaks()) line(format(text, args...));
}

// What only somebody who looks for something wants to see.
template <class... Args>
void debug(std::string_view text, const Args&... args) {
  if (speaks(Level::debug)) line(format(text, args...), Level::debug);
}

// A warning: one line that starts with "warning: ".
template <class... Args>
void warn(std::string_view text, const Args&... args) {
  if (speaks(Level::warning)) line("warning: " + format(text, args...), Level::warning);
}

// Writes one line to standard error whatever the rank.
void error(std::string_view text);

// A warning on standard error, where warn() would speak: for commands whose standard
// output is data.
template <class... Args>
void warn_beside_output(std::string_view text, const Args&... args) {
  if (speaks(Level::warning)) error("trireme: warning: " + format(text, args...));
}

// Waits until standard error has been read, where it is a pipe, but not for longer than a
// second. mpirun ends all ranks once one of them leaves with a status other than 0, and
// drops what it has not read of the others: rank 0 lets its message arrive first.
void let_errors_arrive();

}  // namespace trireme::log
