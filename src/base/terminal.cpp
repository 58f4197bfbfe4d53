// What standard output can show, asked of the system once.
// SPDX-License-Identifier: Apache-2.0
#include "base/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstdlib>

#include "base/format.hpp"

namespace trireme::terminal {
namespace {

constexpr int usual_columns = 80;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Whether the standard output of the process that has started this one is a terminal.
bool parent_has_terminal() {
  std::array<char, 256> target{};
  const std::string name = format("/proc/{}/fd/1", ::getppid());
  const ssize_t length = ::readlink(name.c_str(), target.data(), target.size() - 1);
  const std::string_view path(target.data(),
                              length > 0 ? static_cast<std::size_t>(length) : 0);
  return path.starts_with("/dev/pts/") || path.starts_with("/dev/tty");
}

int find_columns() {
  const std::string kind = variable("TERM");
  if (kind.empty() || kind == "dumb" || ::isatty(STDOUT_FILENO) == 0) return 0;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return parent_has_terminal() ? usual_columns : 0;
}

bool find_colours() { return columns() > 0 && variable("NO_COLOR").empty(); }

}  // namespace

int columns() {
  static const int found = find_columns();
  return found;
}

bool has_colours() {
  static const bool found = find_colours();
  return found;
}

std::string coloured(std::string_view text) {
  if (!has_colours()) return std::string(text);
  constexpr std::string_view bold = "\x1b[1m", yellow = "\x1b[33m", plain = "\x1b[0m";
  constexpr std::string_view warning = "warning:";
  std::size_t end = 0;
  while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0)
    ++end;
  std::string_view style = bold;
  if (text.starts_with(warning)) {
    style = yellow;
    end = warning.size();
  } else if (end == 0 || end >= text.size() || text[end] != ' ') {
    return std::string(text);
  }
  return format("{}{}{}{}", style, text.substr(0, end), plain, text.substr(end));
}

}  // namespace trireme::terminal
