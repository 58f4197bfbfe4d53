// What this program is made of: its build, and the versions of its libraries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trireme::app {

// "commit: 0123456789ab", "HDF5: 1.10.8", ...: what `trireme --version` prints behind the
// program's own version. Wants MPI to be started and a kernels::Runtime.
std::vector<std::string> software_lines();

}  // namespace trireme::app
