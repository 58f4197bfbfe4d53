// Regular files of one folder, opened without waiting; links are followed on request.
// SPDX-License-Identifier: Apache-2.0
#include "io/plain_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

// What is digested may be digested twice, out of the cache.
constexpr std::int64_t block_bytes = std::int64_t{1} << 18;

const char* kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

[[noreturn]] void refuse(const std::string& path, mode_t mode) {
  fail(Status::bad_content, "{}: is {}, where a regular file of this folder is expected",
       path, kind_of(mode));
}

[[noreturn]] void report(const Directory& folder, const std::string& name,
                         const std::string& path, Links links, int error) {
  struct stat status {};
  const std::string reason = system_reason(error);
  if (::fstatat(folder.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      !S_ISREG(status.st_mode)) {
    require(!S_ISLNK(status.st_mode) || links == Links::refused, Status::bad_content,
            "{}: is a link to a file that cannot be opened: {}", path, reason);
    refuse(path, status.st_mode);
  }
  if (error == ENOENT) fail(Status::bad_content, "{}: {}", path, reason);
  fail(error == EACCES || error == EPERM ? Status::missing_input : Status::io,
       "{}: cannot be opened: {}", path, reason);
}

}  // namespace

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

PlainFile::PlainFile(const Directory& folder, const std::string& name, Links links,
                     std::int64_t bytes)
    : path_(folder.path() + "/" + name) {
  require(is_plain_name(name), Status::bad_content,
          "{}: '{}' is not the name of a file in this folder", folder.path(), name);
  // O_NONBLOCK: opening a named pipe would wait for a writer.
  file_ = Descriptor(uninterrupted([&] {
    constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    const int at = folder.descriptor();
    return links == Links::refused ? ::openat(at, name.c_str(), flags | O_NOFOLLOW)
                                   : ::openat(at, name.c_str(), flags);
  }));
  if (!file_.is_open()) report(folder, name, path_, links, errno);
  if (bytes > 0 && ::lseek(file_.get(), 0, SEEK_END) == bytes) {
    size_ = bytes;
    return;
  }
  struct stat status {};
  const bool known = ::fstat(file_.get(), &status) == 0;
  const int error = errno;
  if (known && S_ISREG(status.st_mode)) {
    size_ = status.st_size;
    require(bytes < 0 || size_ == bytes, Status::bad_content,
            "{}: has {} bytes, but {} were written", path_, size_, bytes);
    return;
  }
  if (known) refuse(path_, status.st_mode);
  fail(Status::io, "{}: cannot be inspected: {}", path_, system_reason(error));
}

void PlainFile::read(std::int64_t begin, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(file_.get(), out.data(), out.size(), begin);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(Status::io, "{}: read failed: {}", path_, system_reason(errno));
    require(got > 0, Status::bad_content, "{}: ends {} bytes too early", path_,
            out.size());
    count_read(got);
    out = out.subspan(static_cast<std::size_t>(got));
    begin += got;
  }
}

void PlainFile::digest(std::int64_t begin, std::int64_t bytes,
                       std::initializer_list<Digest*> digests) const {
  if (!block_) block_ = std::make_unique_for_overwrite<std::byte[]>(block_bytes);
  for (std::int64_t done = 0; done < bytes;) {
    const auto count = static_cast<std::size_t>(std::min(bytes - done, block_bytes));
    read(begin + done, {block_.get(), count});
    for (Digest* digest : digests) digest->add(block_.get(), count);
    done += static_cast<std::int64_t>(count);
  }
}

std::string PlainFile::digest() const {
  Digest whole;
  digest(0, size_, {&whole});
  return whole.text();
}

std::string PlainFile::text(std::int64_t limit) const {
  require(size_ <= limit, Status::bad_content, "{}: is longer than {} bytes", path_,
          limit);
  std::string text(static_cast<std::size_t>(size_), '\0');
  read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace trireme::io
