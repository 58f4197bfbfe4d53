// Why a system call failed, for the user.
// SPDX-License-Identifier: Apache-2.0
#include "base/system_reason.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "base/format.hpp"

namespace trireme {
namespace {

// "; the limit is 20 open files (ulimit -n)"; nothing where there is no limit.
std::string limit_text(const rlimit& limit, const char* what) {
  if (limit.rlim_cur == RLIM_INFINITY) return "";
  return format("; the limit is {} {}", static_cast<std::int64_t>(limit.rlim_cur), what);
}

}  // namespace

std::string system_reason(int error) {
  std::string text = std::strerror(error);
  rlimit limit{};
  if (error == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0)
    text += limit_text(limit, "bytes in a file (ulimit -f)");
  if (error == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    text += limit_text(limit, "open files (ulimit -n)");
  return text;
}

}  // namespace trireme
