// Files and directories: checked, atomic, synced.
// SPDX-License-Identifier: Apache-2.0
#include "io/files.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "base/temporary_files.hpp"
#include "io/digest.hpp"

namespace trireme::io {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;
// Of a range: what is read is digested twice, out of the cache.
constexpr std::size_t range_block_bytes = std::size_t{1} << 18;

std::atomic<std::int64_t> read_so_far{0};

// An open file that is closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }
  // False with errno when closing tells of a failed write (as network file systems do).
  bool close() { return ::close(std::exchange(value_, -1)) == 0; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

std::string reason() { return system_reason(errno); }

Descriptor open_input(const std::string& path) {
  const int value = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (value < 0) fail(Status::missing_input, "{}: {}", path, reason());
  struct stat status {};
  if (::fstat(value, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(value);
    fail(Status::missing_input, "{}: is a directory, not a file", path);
  }
  return Descriptor(value);
}

// Bytes read into `to`: fewer than asked for only at the end of the file.
std::size_t read_block(const Descriptor& file, const std::string& path, char* to,
                       std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::read(file.get(), to + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(Status::io, "{}: read failed: {}", path, reason());
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  count_read(static_cast<std::int64_t>(done));
  return done;
}

// The directory that a path lies in.
std::string parent_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Writes, syncs and closes a new file. Errors name `path`, what the file will be.
void write_new(const std::string& name, const std::string& path,
               const std::string& text) {
  Descriptor file(uninterrupted([&] {
    return ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }));
  if (file.get() < 0)
    fail(Status::cannot_create, "{}: cannot be created: {}", path, reason());
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(file.get(), text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = ENOSPC;
    if (put <= 0) fail(Status::io, "{}: write failed: {}", path, reason());
    done += static_cast<std::size_t>(put);
  }
  if (uninterrupted([&] { return ::fsync(file.get()); }) != 0)
    fail(Status::io, "{}: fsync failed: {}", path, reason());
  if (!file.close()) fail(Status::io, "{}: close failed: {}", path, reason());
}

void sync_path(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_RDONLY | O_CLOEXEC));
  if (file.get() < 0)
    fail(Status::io, "{}: cannot be opened to sync it: {}", path, reason());
  // Some file systems cannot sync a directory, and say so: theirs need none.
  const bool unsupported = (flags & O_DIRECTORY) != 0;
  if (uninterrupted([&] { return ::fsync(file.get()); }) != 0 &&
      !(unsupported && errno == EINVAL))
    fail(Status::io, "{}: fsync failed: {}", path, reason());
}

bool is_file_like(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}

}  // namespace

std::string read_text(const std::string& path, std::int64_t limit) {
  const Descriptor file = open_input(path);
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + block_bytes);
    text.resize(before + read_block(file, path, text.data() + before, block_bytes));
    require(static_cast<std::int64_t>(text.size()) <= limit, Status::bad_content,
            "{}: is longer than {} bytes", path, limit);
    if (text.size() < before + block_bytes) return text;
  }
}

void write_text_atomically(const std::string& path, const std::string& text) {
  TemporaryFile draft(format("{}.tmp-{}", path, ::getpid()));
  write_new(draft.path(), path, text);
  draft.rename_to(path);
  sync_directory(parent_of(path));
}

void make_directories(const std::string& path) {
  require(!path.empty(), Status::cannot_create, "a directory without a name");
  for (auto at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    struct stat status {};
    if (::mkdir(part.c_str(), 0777) != 0) {
      const int error = errno;
      const bool exists = ::stat(part.c_str(), &status) == 0;
      require(!exists || S_ISDIR(status.st_mode), Status::cannot_create,
              "{}: cannot be made, for a file of that name exists", part);
      require(exists, Status::cannot_create, "{}: the directory cannot be made: {}", part,
              std::strerror(error));
    }
    if (at == std::string::npos) return;
  }
}

std::vector<std::string> expand(const std::string& pattern) {
  // A name that exists is that file, whatever characters it has.
  struct stat status {};
  if (::stat(pattern.c_str(), &status) == 0) return {pattern};
  require(pattern.find("**") == std::string::npos, Status::missing_input,
          "{}: \"**\" is not supported; give a pattern for each level of directories",
          pattern);
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  const std::unique_ptr<glob_t, decltype(&::globfree)> owner(&found, ::globfree);
  require(result == 0 || result == GLOB_NOMATCH, Status::missing_input,
          "{}: cannot be searched: {}", pattern, reason());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < found.gl_pathc; ++i)
    if (is_file_like(found.gl_pathv[i])) names.emplace_back(found.gl_pathv[i]);
  const bool is_glob = pattern.find_first_of("*?[") != std::string::npos;
  require(!names.empty(), Status::missing_input,
          is_glob ? "{}: matches no file" : "{}: no such file", pattern);
  std::sort(names.begin(), names.end());
  return names;
}

void sync_file(const std::string& path) { sync_path(path, 0); }

void sync_directory(const std::string& path) { sync_path(path, O_DIRECTORY); }

std::string file_digest(const std::string& path) {
  const Descriptor file = open_input(path);
  Digest digest;
  std::vector<char> block(block_bytes);
  for (;;) {
    const std::size_t got = read_block(file, path, block.data(), block.size());
    digest.add(block.data(), got);
    if (got < block.size()) return digest.text();
  }
}

RangeReader::RangeReader(const std::string& path)
    : path_(path),
      descriptor_(open_input(path).release()),
      block_(std::make_unique_for_overwrite<char[]>(range_block_bytes)) {}

RangeReader::~RangeReader() { ::close(descriptor_); }

void RangeReader::digest(std::int64_t begin, std::int64_t bytes,
                         std::initializer_list<Digest*> digests) const {
  while (bytes > 0) {
    const auto wanted = std::min(bytes, static_cast<std::int64_t>(range_block_bytes));
    const ssize_t got =
        ::pread(descriptor_, block_.get(), static_cast<std::size_t>(wanted), begin);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(Status::io, "{}: read failed: {}", path_, reason());
    require(got > 0, Status::bad_content, "{}: ends {} bytes too early", path_, bytes);
    for (Digest* digest : digests)
      digest->add(block_.get(), static_cast<std::size_t>(got));
    count_read(got);
    begin += got;
    bytes -= got;
  }
}

std::int64_t bytes_read() { return read_so_far; }
void count_read(std::int64_t bytes) { read_so_far += bytes; }

}  // namespace trireme::io
