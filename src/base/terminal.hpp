// What standard output can show: whether it is a terminal, how wide, and with colours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trireme::terminal {

// Columns of the terminal that standard output is, at last; 0: a file or a pipe, or a
// terminal that TERM calls dumb, or does not name. Open MPI gives ranks a terminal of
// their own, of no size, whatever mpirun writes to: mpirun's counts in its place.
int columns();

// Whether colours are shown: on such a terminal, unless NO_COLOR says no
// (no-color.org).
bool has_colours();

// A line of the log in colours: what it is about, its first word, stands out, and so does
// a warning. `text` as it is without colours.
std::string coloured(std::string_view text);

// What ends the line that the cursor stands in and removes it.
inline constexpr std::string_view clear_line = "\r\x1b[K";

}  // namespace trireme::terminal
