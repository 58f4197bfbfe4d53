// Descriptor: a file descriptor that closes itself, and calls that signals interrupt.
// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace trireme {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    value_ = other.release();
  }
  return *this;
}

int Descriptor::release() { return std::exchange(value_, -1); }

bool Descriptor::close() {
  if (value_ < 0) return true;
  // After EINTR the descriptor is free already, and what was written is in the kernel.
  return ::close(release()) == 0 || errno == EINTR;
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const auto put =
        uninterrupted([&] { return ::write(descriptor, text.data(), text.size()); });
    if (put == 0) errno = ENOSPC;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

std::string_view what_is_irregular(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "";
    case S_IFDIR: return "is a directory";
    case S_IFLNK: return "is a symbolic link";
    case S_IFIFO: return "is a FIFO";
    case S_IFSOCK: return "is a socket";
    default: return "is a device";
  }
}

int open_to_read(const std::string& path) {
  return uninterrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
}

}  // namespace trireme
