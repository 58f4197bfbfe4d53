// Where a command writes its result: not over what it reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trireme::app {

// Throws Error(command_line) where the result of -o would take the place of a file that
// the command reads, by whatever name. "-" is standard input.
void check_result(const std::string& result, const std::vector<std::string>& read);

}  // namespace trireme::app
