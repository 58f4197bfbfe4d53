// Paths as words, and what a path leads to now.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme {

// "runs/a" of "runs/a//"; "/" stays.
std::string without_slashes(std::string path);

// Whether the path leads to anything, or to a folder; links in it are followed. False
// also where that cannot be seen.
bool is_there(const std::string& path);
bool is_folder(const std::string& path);

}  // namespace trireme
