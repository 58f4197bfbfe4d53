// What standard output can show, asked of the system once.
// SPDX-License-Identifier: Apache-2.0
#include "base/terminal.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <string_view>

#include "base/environment.hpp"
#include "base/format.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"

namespace trireme::terminal {
namespace {

termios modes_before{};
std::atomic<bool> modes_changed = false;

constexpr int usual_columns = 80;
constexpr int least_columns = 40, most_columns = 100;  // of prose

// What the standard output of a process is: a path, or empty if it is not to be seen.
std::string output_of(pid_t process) {
  std::array<char, 256> target{};
  const std::string name = format("/proc/{}/fd/1", process);
  const ssize_t length = ::readlink(name.c_str(), target.data(), target.size());
  return {target.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

// 0 if it is not to be seen.
pid_t parent_of(pid_t process) {
  return process_stat(process).value_or(ProcessStat{}).parent;
}

// 0 if it has none.
int columns_of(int file) {
  winsize size{};
  return ::ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// The columns of the other terminal of the program that gave this one its terminal, past
// wrappers that share it; 0 if that program writes to no terminal.
int columns_of_giver() {
  const std::string own = output_of(::getpid());
  std::string path;
  for (pid_t process = ::getppid(); process > 0; process = parent_of(process)) {
    path = output_of(process);
    if (path != own) break;
  }
  if (path == own || !(path.starts_with("/dev/pts/") || path.starts_with("/dev/tty")))
    return 0;
  const int file = ::open(path.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return usual_columns;
  const int found = columns_of(file);
  ::close(file);
  return found > 0 ? found : usual_columns;
}

bool is_terminal(int file) {
  const std::string kind = environment_text("TERM");
  return !kind.empty() && kind != "dumb" && ::isatty(file) == 1;
}

int find_columns() {
  if (!is_terminal(STDOUT_FILENO)) return 0;
  const int found = columns_of(STDOUT_FILENO);
  return found > 0 ? found : columns_of_giver();
}

bool find_colours() { return columns() > 0 && environment_text("NO_COLOR").empty(); }

std::size_t letters_at_start(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0)
    ++end;
  return end;
}

// Whether a word and blanks fill the columns of labels: "mesh      4 ranks".
bool is_labelled(std::string_view line) {
  constexpr std::size_t label_columns = 10;
  const std::size_t end = letters_at_start(line);
  return end > 0 && end < label_columns &&
         line.find_first_not_of(' ', end) == label_columns;
}

std::string coloured_line(std::string_view text) {
  constexpr std::string_view bold = "\x1b[1m", yellow = "\x1b[33m", plain = "\x1b[0m";
  constexpr std::string_view warning = "warning:";
  std::size_t end = letters_at_start(text);
  std::string_view style = bold;
  if (text.starts_with(warning)) {
    style = yellow;
    end = warning.size();
  } else if (end == 0 || end >= text.size() || text[end] != ' ') {
    return std::string(text);
  }
  return format("{}{}{}{}", style, text.substr(0, end), plain, text.substr(end));
}

}  // namespace

KeyModes::KeyModes() {
  if (::tcgetattr(STDIN_FILENO, &modes_before) == 0) modes_changed = true;
}

KeyModes::~KeyModes() { modes_changed = false; }

void restore_modes() noexcept {
  if (!modes_changed.exchange(false)) return;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &modes_before);
  if (::write(STDOUT_FILENO, no_more_marks.data(), no_more_marks.size()) < 0) {
  }
}

bool has_keys() { return ::isatty(STDIN_FILENO) == 1 && is_terminal(STDOUT_FILENO); }

int columns() {
  static const int found = find_columns();
  return found;
}

std::size_t prose_columns() {
  const int width = columns() == 0 ? most_columns : columns();
  return static_cast<std::size_t>(std::clamp(width, least_columns, most_columns));
}

std::string line_of(std::span<const Field> fields, int columns) {
  std::string line;
  for (int least = 1;; ++least) {
    line.clear();
    std::size_t room = 0;
    bool all_left_are_fixed = true;
    for (const Field& field : fields) {
      if (field.worth != 0 && field.worth < least) continue;
      all_left_are_fixed = all_left_are_fixed && field.worth == 0;
      room += (line.empty() ? 0 : 2) + std::max(field.text.size(), field.room);
      line += (line.empty() ? "" : "  ") + field.text;
    }
    if (columns == 0 || all_left_are_fixed || room <= static_cast<std::size_t>(columns))
      return line;
  }
}

bool has_colours() {
  static const bool found = find_colours();
  return found;
}

std::string coloured(std::string_view text) {
  if (!has_colours()) return std::string(text);
  const auto end = std::min(text.find('\n'), text.size());
  std::string out = coloured_line(text.substr(0, end));
  // What follows in the same text is a block of such lines, or prose and tables.
  for (text.remove_prefix(end); !text.empty();) {
    const auto next = std::min(text.find('\n', 1), text.size());
    const std::string_view line = text.substr(1, next - 1);
    out += '\n' + (is_labelled(line) ? coloured_line(line) : std::string(line));
    text.remove_prefix(next);
  }
  return out;
}

std::string error_text(std::string_view text) {
  if (!is_terminal(STDERR_FILENO) || !text.starts_with("trireme: "))
    return std::string(text);
  const int found = columns_of(STDERR_FILENO);
  const int width = found > 0 ? found : usual_columns;
  std::string out = wrapped(
      text, static_cast<std::size_t>(std::clamp(width, least_columns, most_columns)), 4);
  constexpr std::string_view label = "trireme: error:", red = "\x1b[1;31m",
                             plain = "\x1b[0m";
  if (out.starts_with(label) && environment_text("NO_COLOR").empty())
    out = format("{}{}{}{}", red, label, plain, out.substr(label.size()));
  return out;
}

}  // namespace trireme::terminal
