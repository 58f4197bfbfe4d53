// Points of a sweep from --grid and --list.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trireme::app {

// The parts of `text` between separators that stand outside of quotes and brackets,
// trimmed. A run of blanks is one separator if `separator` is a blank.
std::vector<std::string> split_outside(const std::string& text, char separator);

// Of "key=value", trimmed.
std::string key_of(const std::string& override_text);

// Overrides of each point. Lines of `list` come first and vary slowest: one point a line,
// "key=value key=value", with "#" comments. Each grid "key=a,b,c" multiplies what is
// there by its values; the last varies fastest. Throws Error(command_line), or
// Error(bad_content) that names the line of the list.
std::vector<std::vector<std::string>> sweep_points(const std::vector<std::string>& grids,
                                                   const std::string& list,
                                                   const std::string& list_name);

}  // namespace trireme::app
