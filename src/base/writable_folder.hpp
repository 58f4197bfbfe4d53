// Whether files can be made in a folder, asked without leaving any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme {

// Why this process can make no file in a folder that is there; empty: it can. A file is
// made, and removed at once, only where permissions allow it and the file system has no
// blocks: those of the kernel (/proc, /sys) allow and then refuse.
std::string why_no_files_in(const std::string& folder);

}  // namespace trireme
