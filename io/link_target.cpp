// Links are read by one call, which looks at nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "io/link_target.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstddef>

namespace trireme::io {

std::string link_target(int folder, const std::string& link) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlinkat(folder, link.c_str(), target.data(), target.size());
  return length < 0 ? "" : std::string(target.data(), static_cast<std::size_t>(length));
}

}  // namespace trireme::io
