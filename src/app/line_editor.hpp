// LineEditor: lines that a person types, with the keys of a terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace trireme::app {

// Reads lines from standard input. On a terminal, where the program was built with
// libedit, keys move within the line, up and down bring earlier lines back, a pasted text
// of several lines is one message, and Ctrl-C empties the line. Without it the terminal's
// own keys edit, and elsewhere lines are read as they come.
class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next line, without its end (a line feed, or CR LF); nothing where the input ends
  // (Ctrl-D). The prompt is shown on terminals only.
  std::optional<std::string> read(const std::string& prompt);

 private:
  class Keys;  // of libedit
  bool terminal_;
  std::unique_ptr<Keys> keys_;
};

}  // namespace trireme::app
