// Reads the line that the system keeps of a process.
// SPDX-License-Identifier: Apache-2.0
#include "base/process_stat.hpp"

#include <fstream>
#include <string>

#include "base/format.hpp"
#include "base/number.hpp"

namespace trireme {

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  const std::size_t name_end = text.rfind(") ");
  if (name_end == text.npos) return {};
  text.remove_prefix(name_end + 2);  // "S 45 ..."
  if (text.size() < 3 || text[1] != ' ') return {};
  const auto parent = parse_number<int>(text.substr(2, text.find(' ', 2) - 2));
  if (!parent) return {};
  return ProcessStat{text[0], *parent};
}

std::optional<ProcessStat> process_stat(pid_t process) {
  std::ifstream file(format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text, '\0');  // a name may hold line ends
  return parse_process_stat(text);
}

}  // namespace trireme
