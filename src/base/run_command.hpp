// Another program's answer, without a shell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

// Runs words[0], found in PATH, with the other words as its arguments, nothing on its
// standard input and its errors thrown away. It starts with no signal blocked or ignored.
// Returns what it wrote, 4 KiB at most; nothing when it cannot be started, leaves with
// another status than 0, or takes longer than `seconds`: it is killed then.
std::optional<std::string> output_of(const std::vector<std::string>& words,
                                     double seconds);

}  // namespace trireme
