// What standard output can show: whether it is a terminal, how wide, and with colours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme::terminal {

// Columns of the terminal that standard output is, at last; 0: a file or a pipe, or a
// terminal that TERM calls dumb, or does not name. Open MPI gives ranks a terminal of
// their own, of no size, whatever mpirun writes to: mpirun's counts in its place.
int columns();

// Whether a person types into standard input and sees standard output on a terminal that
// moves its cursor.
bool has_keys();

// While it lives, a line is edited key by key: restore_modes() gives standard input's
// terminal back the modes that it had before, for whoever ends the process meanwhile.
class KeyModes {
 public:
  KeyModes();
  ~KeyModes();
  KeyModes(const KeyModes&) = delete;
  KeyModes& operator=(const KeyModes&) = delete;
};
// Also in a signal's handler.
void restore_modes() noexcept;

// What asks a terminal for marks around what is pasted (DEC private mode 2004), and what
// asks for no more.
inline constexpr std::string_view ask_for_marks = "\x1b[?2004h",
                                  no_more_marks = "\x1b[?2004l";

// Columns that prose in the log is broken at: 100, or fewer on a narrower terminal.
std::size_t prose_columns();

// A part of a line that says one thing: "norm 1.8".
struct Field {
  std::string text;
  int worth = 0;         // 0: never left out
  std::size_t room = 0;  // what it may need in other lines, which shall look alike
};

// The fields in a line, two blanks apart. Where that has more than `columns`, those of
// least worth are left out; 0 columns have room for all.
std::string line_of(std::span<const Field> fields, int columns);

// Whether colours are shown: on such a terminal, unless NO_COLOR says no
// (no-color.org).
bool has_colours();

// A line of the log in colours: what it is about, its first word, stands out, and so does
// a warning. `text` as it is without colours.
std::string coloured(std::string_view text);

// A message for standard error, "trireme: ...": where that is a terminal, in lines that
// fit it, and with "trireme: error:" in colour.
std::string error_text(std::string_view text);

// What ends the line that the cursor stands in and removes it.
inline constexpr std::string_view clear_line = "\r\x1b[K";

}  // namespace trireme::terminal
