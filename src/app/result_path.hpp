// Where a command writes its result: not over what it reads, nor over other things.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::app {

// Throws Error(command_line) where the result of an option, usually -o, would take the
// place of a file that the command reads, by whatever name. "-" is standard input.
void check_result(const std::string& result, const std::vector<std::string>& read,
                  std::string_view option = "-o");

// Throws Error(cannot_create) where a file that is there does not begin as the result
// may: it is something else, and would be lost. `what` the result is, for the message.
void check_replaced(const std::string& result,
                    const std::vector<std::string_view>& beginnings,
                    std::string_view what);

inline constexpr std::string_view hdf5_beginning = "\x89HDF\r\n\x1a\n";

}  // namespace trireme::app
