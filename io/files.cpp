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
#include "io/digest.hpp"

namespace trireme::io {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

std::atomic<std::int64_t> read_so_far{0};

std::string reason() { return system_reason(errno); }

Descriptor open_input(const std::string& path, bool pipe_too = false) {
  Descriptor file(open_to_read(path));
  if (!file.is_open()) fail(Status::missing_input, "{}: {}", path, reason());
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    fail(Status::io, "{}: cannot be inspected: {}", path, reason());
  if (pipe_too && S_ISFIFO(status.st_mode)) {
    const int flags = ::fcntl(file.get(), F_GETFL);
    ::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK);
    return file;
  }
  require(S_ISREG(status.st_mode), Status::missing_input, "{}: {}, not a file", path,
          what_is_irregular(status.st_mode));
  return file;
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

bool is_file_like(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}

std::string read_all(const Descriptor& file, const std::string& path,
                     std::int64_t limit) {
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

}  // namespace

std::string read_text(const std::string& path, std::int64_t limit) {
  return read_all(open_input(path), path, limit);
}

std::string read_text_or_pipe(const std::string& path, std::int64_t limit) {
  return read_all(open_input(path, true), path, limit);
}

std::string read_text(const Directory& folder, const std::string& name,
                      std::int64_t limit) {
  const Descriptor file = folder.read_file(name);
  if (!file.is_open()) {
    const int error = errno;
    folder.require_file(name);
    fail(Status::missing_input, "{}: {}", folder.path_of(name), system_reason(error));
  }
  return read_all(file, folder.path_of(name), limit);
}

void write_text_atomically(const std::string& path, const std::string& text) {
  write_text_atomically(Directory(parent_of(path)), last_name_of(path), text);
}

void write_text_atomically(const Directory& folder, const std::string& name,
                           const std::string& text) {
  replace_text(folder, name, text, Durability::synced);
}

void make_directories(const std::string& path) {
  require(!path.empty(), Status::cannot_create, "a directory without a name");
  for (auto at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    struct stat status {};
    if (uninterrupted([&] { return ::mkdir(part.c_str(), 0777); }) != 0) {
      const int error = errno;
      const bool exists = ::stat(part.c_str(), &status) == 0;
      require(!exists || S_ISDIR(status.st_mode), Status::cannot_create,
              "{}: cannot be made, for a file of that name exists", part);
      require(exists, Status::cannot_create, "{}: the directory cannot be made: {}", part,
              system_reason(error));
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

void sync_file(const std::string& path) {
  const Descriptor file(uninterrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!file.is_open())
    fail(Status::io, "{}: cannot be opened to sync it: {}", path, reason());
  if (uninterrupted([&] { return ::fsync(file.get()); }) != 0)
    fail(Status::io, "{}: fsync failed: {}", path, reason());
}

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

std::int64_t bytes_read() { return read_so_far; }
void count_read(std::int64_t bytes) { read_so_far += bytes; }

}  // namespace trireme::io
