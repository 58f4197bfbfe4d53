// Words for a POSIX shell, and the program that a script starts.
// SPDX-License-Identifier: Apache-2.0
#include "app/shell.hpp"

#include <unistd.h>

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

std::string path_of_program() {
  std::string path(4096, '\0');
  const ::ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || length == static_cast<::ssize_t>(path.size())) return "";
  path.resize(static_cast<std::size_t>(length));
  return path;
}

}  // namespace trireme::app
