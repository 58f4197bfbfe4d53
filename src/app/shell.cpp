// Words for a POSIX shell.
// SPDX-License-Identifier: Apache-2.0
#include "app/shell.hpp"

namespace trireme::app {

std::string shell_quoted(const std::string& text) {
  constexpr auto safe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!text.empty() && text.find_first_not_of(safe) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string shell_path(const std::string& path) {
  return shell_quoted(path.starts_with('-') ? "./" + path : path);
}

}  // namespace trireme::app
