// The log: rank 0 speaks on standard output; errors go to standard error from any rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/format.hpp"

namespace trireme::log {

// Ranks other than 0 say nothing. Before this is called the process speaks.
void set_rank(int rank);
// true: rank 0 says nothing either; errors are still reported.
void set_quiet(bool quiet);
bool speaks();

// Writes one line to standard output, at once, if this rank speaks.
void line(std::string_view text);

// Formatted line: info("step {}", 3).
template <class... Args>
void info(std::string_view text, const Args&... args) {
  if (speaks()) line(format(text, args...));
}

// A warning: one line that starts with "warning: ".
template <class... Args>
void warn(std::string_view text, const Args&... args) {
  if (speaks()) line("warning: " + format(text, args...));
}

// Writes one line to standard error whatever the rank.
void error(std::string_view text);

// Waits until standard error has been read, where it is a pipe, but not for longer than a
// second. mpirun ends all ranks once one of them leaves with a status other than 0, and
// drops what it has not read of the others: rank 0 lets its message arrive first.
void let_errors_arrive();

}  // namespace trireme::log
