// A file as memory: messages go out of it and come into it without a copy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/directory.hpp"

namespace trireme::io {

class MappedFile {
 public:
  // A file that is there, to read. Throws Error(missing_input) or Error(io) naming it.
  static MappedFile to_read(const Directory& folder, const std::string& name);
  // A new file of `bytes` bytes, to write. All of its room is taken before this returns:
  // writing to memory cannot fail later. Throws Error(cannot_create) or Error(io).
  static MappedFile create(const Directory& folder, const std::string& name,
                           std::int64_t bytes);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  void* data() const { return data_; }  // nullptr of an empty file
  std::int64_t bytes() const { return bytes_; }

 private:
  MappedFile(void* data, std::int64_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace trireme::io
