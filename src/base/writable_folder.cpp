// Permissions of a folder, and a file for a moment where these say nothing.
// SPDX-License-Identifier: Apache-2.0
#include "base/writable_folder.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/descriptor.hpp"
#include "base/system_reason.hpp"

namespace trireme {

std::string why_no_files_in(const std::string& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return system_reason(errno);
  struct statvfs system {};
  if (::statvfs(folder.c_str(), &system) == 0 && system.f_blocks > 0) return {};
  std::string name = folder + "/.trireme-XXXXXX";
  const Descriptor file(::mkstemp(name.data()));
  if (!file.is_open()) return system_reason(errno);
  ::unlink(name.c_str());
  return {};
}

}  // namespace trireme
