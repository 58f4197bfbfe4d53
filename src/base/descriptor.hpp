// Descriptor: an open file that is closed at the end of its scope.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

namespace trireme {

// Makes a system call again when a signal interrupted it.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  int release();
  // False with errno when closing tells of a failed write, as network file systems do.
  bool close();

 private:
  int value_ = -1;
};

// Writes the whole text at the file's position, in as many calls as it takes. False with
// errno when it cannot be written.
bool write_all(int descriptor, std::string_view text);

// "is a FIFO", for messages: what an open file or a name is that is no regular file.
// "" for a regular file; mode: st_mode.
std::string_view what_is_irregular(unsigned mode);

// Opens a file that is there, to be read: at once, whatever it is. Links are followed.
// -1 with errno. What is no regular file is opened too, for the caller to refuse.
int open_to_read(const std::string& path);

}  // namespace trireme
