// ScratchFile: its room, direct I/O, and errors that name the byte.
// SPDX-License-Identifier: Apache-2.0
#include "base/scratch_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/system_reason.hpp"

namespace trireme {
namespace {

// What read_any() reads at a time.
constexpr std::int64_t bounce_bytes = 1 << 20;

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeMemory>;

AlignedMemory aligned_memory(std::int64_t bytes) {
  void* const memory = std::aligned_alloc(static_cast<std::size_t>(ScratchFile::block),
                                          static_cast<std::size_t>(bytes));
  require(memory != nullptr, Status::resources, "no memory of {} bytes to read into",
          bytes);
  return AlignedMemory(static_cast<std::byte*>(memory));
}

// Bytes that a user without privileges may still take; -1: the system does not say.
std::int64_t free_bytes(const std::string& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return -1;
  return static_cast<std::int64_t>(disk.f_bavail) *
         static_cast<std::int64_t>(disk.f_frsize);
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 0) return "an unknown number of bytes";
  return format("{} ({} bytes)", human_bytes(static_cast<double>(bytes)), bytes);
}

}  // namespace

ScratchFile::ScratchFile(const Config& config, std::int64_t bytes) : bytes_(bytes) {
  require(bytes > 0 && bytes % block == 0, "a scratch file of {} bytes", bytes);
  const Directory folder(config.folder);
  path_ = folder.path_of(config.name);
  const std::int64_t free = free_bytes(config.folder);
  require(free < 0 || free >= bytes, Status::resources,
          "{}: {} needs {}, and {} are free: {}", config.folder, config.contents,
          bytes_text(bytes), bytes_text(free), config.remedy);
  file_ = folder.create(config.name);
  require(folder.remove(config.name), Status::cannot_create, "{}: cannot be removed: {}",
          path_, system_reason(errno));
  take_room(config);
  choose_direct(config.direct);
}

void ScratchFile::take_room(const Config& config) const {
  const int error = ::posix_fallocate(file_.get(), 0, bytes_);
  if (error == 0) return;
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  fail(full ? Status::resources : Status::io,
       "{}: {} needs {}, and {} are free, but they cannot be taken: {}: {}",
       config.folder, config.contents, bytes_text(bytes_),
       bytes_text(free_bytes(config.folder)), system_reason(error), config.remedy);
}

// File systems that accept the flag may still refuse to read so.
void ScratchFile::choose_direct(bool wanted) {
#ifdef O_DIRECT
  const int flags = ::fcntl(file_.get(), F_GETFL);
  if (!wanted || flags < 0 || ::fcntl(file_.get(), F_SETFL, flags | O_DIRECT) != 0)
    return;
  const AlignedMemory memory = aligned_memory(block);
  direct_ =
      uninterrupted([&] {
        return ::pread(file_.get(), memory.get(), static_cast<std::size_t>(block), 0);
      }) == block;
  if (!direct_) ::fcntl(file_.get(), F_SETFL, flags);
#else
  static_cast<void>(wanted);
#endif
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::move(other.file_)),
      bytes_(std::exchange(other.bytes_, 0)),
      direct_(other.direct_),
      mapped_(std::exchange(other.mapped_, nullptr)) {}

ScratchFile& ScratchFile::operator=(ScratchFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    file_ = std::move(other.file_);
    bytes_ = std::exchange(other.bytes_, 0);
    direct_ = other.direct_;
    mapped_ = std::exchange(other.mapped_, nullptr);
  }
  return *this;
}

ScratchFile::~ScratchFile() { unmap(); }

void ScratchFile::unmap() {
  if (mapped_ != nullptr) ::munmap(mapped_, static_cast<std::size_t>(bytes_));
  mapped_ = nullptr;
}

void ScratchFile::read(std::int64_t begin, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const auto at = begin + static_cast<std::int64_t>(done);
    const auto got = uninterrupted(
        [&] { return ::pread(file_.get(), out.data() + done, out.size() - done, at); });
    require(got >= 0, Status::io, "{}: at byte {}: cannot be read: {}", path_, at,
            system_reason(errno));
    require(got > 0, Status::io, "{}: ends at byte {} of {}: something cut it short",
            path_, at, bytes_);
    done += static_cast<std::size_t>(got);
  }
}

void ScratchFile::write(std::int64_t begin, std::span<const std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto at = begin + static_cast<std::int64_t>(done);
    const auto put = uninterrupted([&] {
      return ::pwrite(file_.get(), bytes.data() + done, bytes.size() - done, at);
    });
    require(put > 0, Status::io, "{}: at byte {}: cannot be written: {}", path_, at,
            system_reason(put < 0 ? errno : ENOSPC));
    done += static_cast<std::size_t>(put);
  }
}

void ScratchFile::read_any(std::int64_t begin, std::span<std::byte> out) const {
  const AlignedMemory memory = aligned_memory(bounce_bytes);
  std::size_t done = 0;
  while (done < out.size()) {
    const auto at = begin + static_cast<std::int64_t>(done);
    const std::int64_t first = at / block * block;
    const auto left = static_cast<std::int64_t>(out.size() - done);
    const std::int64_t end =
        std::min({(at + left + block - 1) / block * block, first + bounce_bytes, bytes_});
    read(first, {memory.get(), static_cast<std::size_t>(end - first)});
    const auto count = static_cast<std::size_t>(std::min(end - at, left));
    std::memcpy(out.data() + done, memory.get() + (at - first), count);
    done += count;
  }
}

std::byte* ScratchFile::map() {
  if (mapped_ != nullptr) return mapped_;
  void* const data = ::mmap(nullptr, static_cast<std::size_t>(bytes_),
                            PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  require(data != MAP_FAILED, Status::io, "{}: cannot be mapped: {}", path_,
          system_reason(errno));
  return mapped_ = static_cast<std::byte*>(data);
}

void ScratchFile::flush_mapping() {
  if (mapped_ == nullptr) return;
  const auto bytes = static_cast<std::size_t>(bytes_);
  require(::msync(mapped_, bytes, MS_SYNC) == 0, Status::io, "{}: cannot be written: {}",
          path_, system_reason(errno));
  // Where the system keeps the pages all the same, they only take memory.
  static_cast<void>(::madvise(mapped_, bytes, MADV_DONTNEED));
  static_cast<void>(::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED));
}

}  // namespace trireme
