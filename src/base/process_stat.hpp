// What /proc/PID/stat says of a process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

namespace trireme {

struct ProcessStat {
  char state = ' ';  // R: it runs or waits to be run; T or t: it is stopped
  pid_t parent = 0;
};

// Of the text "123 (name) S 45 ...", whose name may hold blanks and brackets. Nothing for
// any other text.
std::optional<ProcessStat> parse_process_stat(std::string_view text);

// Nothing where the process is not to be seen.
std::optional<ProcessStat> process_stat(pid_t process);

}  // namespace trireme
