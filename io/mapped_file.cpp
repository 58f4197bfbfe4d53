// A file as memory.
// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/system_reason.hpp"

namespace trireme::io {
namespace {

void* map(const Descriptor& file, std::int64_t bytes, int protection,
          const std::string& path) {
  if (bytes == 0) return nullptr;
  void* const data = ::mmap(nullptr, static_cast<std::size_t>(bytes), protection,
                            MAP_SHARED, file.get(), 0);
  require(data != MAP_FAILED, Status::io, "{}: cannot be mapped: {}", path,
          system_reason(errno));
  return data;
}

}  // namespace

MappedFile MappedFile::to_read(const Directory& folder, const std::string& name) {
  errno = 0;
  const Descriptor file = folder.read_file(name);
  const int error = errno;
  const std::string path = folder.path_of(name);
  if (!file.is_open()) {
    require(error != ENOENT, Status::missing_input, "{}: there is no such file", path);
    require(error == 0, Status::io, "{}: {}", path, system_reason(error));
    fail(Status::io, "{}: not a regular file", path);
  }
  struct stat status {};
  require(::fstat(file.get(), &status) == 0, Status::io, "{}: {}", path,
          system_reason(errno));
  return {map(file, status.st_size, PROT_READ, path), status.st_size};
}

MappedFile MappedFile::create(const Directory& folder, const std::string& name,
                              std::int64_t bytes) {
  const Descriptor file = folder.create(name);
  const std::string path = folder.path_of(name);
  if (bytes == 0) return {nullptr, 0};
  const int error = ::posix_fallocate(file.get(), 0, bytes);
  require(error == 0, Status::io, "{}: no room for {} bytes: {}", path, bytes,
          system_reason(error));
  return {map(file, bytes, PROT_READ | PROT_WRITE, path), bytes};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, static_cast<std::size_t>(bytes_));
}

}  // namespace trireme::io
