// What a symbolic link names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::io {

// Of a link in the folder with this descriptor (or AT_FDCWD); "" where there is no link.
std::string link_target(int folder, const std::string& link);

}  // namespace trireme::io
