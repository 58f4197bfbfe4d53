// Whether files can be made in a folder, asked without leaving any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme {

// Why this process can make no file in a folder that is there; empty: it can. What the
// permissions allow is tried only where the file system has no blocks, as the kernel's
// own
// (/proc, /sys) have none, which allow and refuse: by a file that is removed at once.
std::string why_no_files_in(const std::string& folder);

}  // namespace trireme
