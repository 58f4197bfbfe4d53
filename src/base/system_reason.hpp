// Why a system call failed, for the user.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme {

// The system's words for an errno, and the limit in force where one was reached: on the
// size of a file (EFBIG, ulimit -f) and on open files (EMFILE, ulimit -n).
std::string system_reason(int error);

}  // namespace trireme
