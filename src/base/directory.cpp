// Directory: files and folders beneath an open folder, without following links.
// SPDX-License-Identifier: Apache-2.0
#include "base/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/path.hpp"
#include "base/system_reason.hpp"
#include "base/temporary_files.hpp"

namespace trireme {
namespace {

constexpr int folder_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr mode_t file_mode = 0666, folder_mode = 0777;

std::string reason() { return system_reason(errno); }

// What bears the name, not what a link leads to; nothing with errno.
std::optional<struct stat> status_of(int folder, const char* name) {
  struct stat status {};
  const auto look = [&] { return ::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW); };
  if (uninterrupted(look) != 0) return {};
  return status;
}

int open_beneath(int folder, const char* name, int flags) {
  return uninterrupted(
      [&] { return ::openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW, file_mode); });
}

bool is_regular(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

// What is in an open folder, from the first on, without opening it again. `error`: why
// there may be more; 0: this is all.
std::vector<Directory::Entry> entries_of(int folder, int& error) {
  std::vector<Directory::Entry> found;
  const int again = ::fcntl(folder, F_DUPFD_CLOEXEC, 0);
  DIR* const opened = again < 0 ? nullptr : ::fdopendir(again);
  if (opened == nullptr) {
    error = errno;
    if (again >= 0) ::close(again);
    return found;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opened, ::closedir);
  ::rewinddir(entries.get());
  errno = 0;
  while (const dirent* entry = ::readdir(entries.get())) {
    if (const std::string name = entry->d_name; name != "." && name != "..")
      found.push_back({name, entry->d_type == DT_DIR});
    errno = 0;
  }
  error = errno;
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

bool remove_all(int parent, const char* name) {
  const auto unlink = [&](int flags) {
    return uninterrupted([&] { return ::unlinkat(parent, name, flags); }) == 0 ||
           errno == ENOENT;
  };
  const auto status = status_of(parent, name);
  if (!status) return errno == ENOENT;
  if (!S_ISDIR(status->st_mode)) return unlink(0);
  const Descriptor folder(open_beneath(parent, name, folder_flags));
  if (!folder.is_open()) return false;
  int error = 0;  // what is not seen stays, and so does the folder
  for (const auto& entry : entries_of(folder.get(), error))
    if (!remove_all(folder.get(), entry.name.c_str())) return false;
  return unlink(AT_REMOVEDIR);
}

void require_name(const std::string& name) {
  require(
      !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos,
      "'{}' is no name of a file", name);
}

[[noreturn]] void fail_irregular(const std::string& path, unsigned mode,
                                 std::string_view wanted) {
  const auto kind = what_is_irregular(mode);
  fail(Status::cannot_create, "{}: {}, where {} is to be: remove it, or move it away",
       path, kind.empty() ? "is a file" : kind, wanted);
}

}  // namespace

std::vector<std::string> names_of(const std::vector<Directory::Entry>& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

std::string parent_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string last_name_of(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

Directory::Directory(Descriptor file, std::string path)
    : path_(std::move(path)), file_(std::move(file)) {}

Directory::Directory(const std::string& path)
    : path_(path),
      file_(uninterrupted([&] { return ::open(path.c_str(), folder_flags); })) {
  if (!file_.is_open())
    fail(Status::cannot_create, "{}: the directory cannot be opened: {}", path, reason());
}

Directory Directory::to_read(const std::string& path) {
  Descriptor folder(uninterrupted([&] { return ::open(path.c_str(), folder_flags); }));
  if (!folder.is_open()) fail(Status::missing_input, "{}: {}", path, reason());
  return {std::move(folder), path};
}

Directory Directory::own(const std::string& path) {
  const std::string name = without_slashes(path);
  return Directory(parent_of(name)).open(last_name_of(name));
}

Directory Directory::make_own(const std::string& path) {
  const std::string name = without_slashes(path);
  return Directory(parent_of(name)).make(last_name_of(name));
}

std::string Directory::path_of(std::string_view name) const {
  return path_ + (path_.ends_with('/') ? "" : "/") + std::string(name);
}

Directory Directory::open(const std::string& name) const {
  require_name(name);
  Descriptor folder(open_beneath(file_.get(), name.c_str(), folder_flags));
  if (!folder.is_open()) {
    const int error = errno;
    require_folder(name);
    fail(Status::cannot_create, "{}: the directory cannot be opened: {}", path_of(name),
         system_reason(error));
  }
  return {std::move(folder), path_of(name)};
}

std::optional<Directory> Directory::find(const std::string& name) const {
  require_name(name);
  Descriptor folder(open_beneath(file_.get(), name.c_str(), folder_flags));
  if (folder.is_open()) return Directory(std::move(folder), path_of(name));
  if (errno == ENOENT) return {};
  return open(name);  // says what is wrong
}

Directory Directory::make(const std::string& name) const {
  require_name(name);
  const auto make = [&] { return ::mkdirat(file_.get(), name.c_str(), folder_mode); };
  if (uninterrupted(make) != 0) {
    const int error = errno;
    if (!has(name))
      fail(Status::cannot_create, "{}: the directory cannot be made: {}", path_of(name),
           system_reason(error));
  }
  return open(name);
}

bool Directory::has(const std::string& name) const {
  return status_of(file_.get(), name.c_str()).has_value();
}

bool Directory::is_file(const std::string& name) const {
  const auto status = status_of(file_.get(), name.c_str());
  return status && S_ISREG(status->st_mode);
}

bool Directory::is_link(const std::string& name) const {
  const auto status = status_of(file_.get(), name.c_str());
  return status && S_ISLNK(status->st_mode);
}

bool Directory::is_shared(const std::string& name) const {
  const auto status = status_of(file_.get(), name.c_str());
  return status && S_ISREG(status->st_mode) && status->st_nlink > 1;
}

std::vector<std::string> Directory::names() const {
  int error = 0;
  return names_of(entries_of(file_.get(), error));
}

std::vector<Directory::Entry> Directory::entries() const {
  int error = 0;
  auto found = entries_of(file_.get(), error);
  require(error == 0, Status::io, "{}: the directory cannot be read: {}", path_,
          system_reason(error));
  return found;
}

std::vector<std::string> Directory::all_names() const { return names_of(entries()); }

void Directory::require_file(const std::string& name) const {
  const auto status = status_of(file_.get(), name.c_str());
  if (status && !S_ISREG(status->st_mode))
    fail_irregular(path_of(name), status->st_mode, "a file");
}

void Directory::require_folder(const std::string& name) const {
  const auto status = status_of(file_.get(), name.c_str());
  if (status && !S_ISDIR(status->st_mode))
    fail_irregular(path_of(name), status->st_mode, "a directory");
}

Descriptor Directory::create(const std::string& name) const {
  require_name(name);
  const auto make = [&] {
    return Descriptor(open_beneath(file_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL));
  };
  Descriptor file = make();
  if (!file.is_open() && errno == EEXIST) {
    require_file(name);
    if (!remove(name))
      fail(Status::cannot_create, "{}: cannot be replaced: {}", path_of(name), reason());
    file = make();
  }
  if (!file.is_open())
    fail(Status::cannot_create, "{}: cannot be created: {}", path_of(name), reason());
  return file;
}

Descriptor Directory::open_to_write(const std::string& name) const {
  return open_or_make(name, O_RDWR);
}

Descriptor Directory::open_to_append(const std::string& name) const {
  return open_or_make(name, O_WRONLY | O_APPEND);
}

Descriptor Directory::open_or_make(const std::string& name, int access) const {
  require_name(name);
  // O_NONBLOCK: a FIFO is to be refused, not to be waited for.
  Descriptor file(open_beneath(file_.get(), name.c_str(), access | O_CREAT | O_NONBLOCK));
  const int error = errno;
  if (!file.is_open() || !is_regular(file.get())) {
    require_file(name);
    fail(Status::cannot_create, "{}: cannot be created: {}", path_of(name),
         system_reason(error));
  }
  return file;
}

Descriptor Directory::read_file(const std::string& name) const {
  require_name(name);
  Descriptor file(open_beneath(file_.get(), name.c_str(), O_RDONLY | O_NONBLOCK));
  if (file.is_open() && !is_regular(file.get())) file.close();
  return file;
}

void Directory::move(const std::string& from, const Directory& folder,
                     const std::string& to) const {
  require_name(from);
  require_name(to);
  if (folder.is_link(to)) fail_irregular(folder.path_of(to), S_IFLNK, "a new name");
  const auto rename = [&] {
    return ::renameat(file_.get(), from.c_str(), folder.file_.get(), to.c_str());
  };
  if (uninterrupted(rename) != 0)
    fail(Status::cannot_create, "{}: cannot be renamed to '{}': {}", path_of(from),
         folder.path_of(to), reason());
}

void Directory::rename(const std::string& from, const std::string& to) const {
  move(from, *this, to);
}

void Directory::rename_into(const Directory& folder, const std::string& name) const {
  move(name, folder, name);
}

bool Directory::remove(const std::string& name) const {
  require_name(name);
  return uninterrupted([&] { return ::unlinkat(file_.get(), name.c_str(), 0); }) == 0 ||
         errno == ENOENT;
}

bool Directory::remove_tree(const std::string& name) const {
  require_name(name);
  return remove_all(file_.get(), name.c_str());
}

void Directory::sync() const {
  // Some file systems cannot sync a directory, and say so: theirs need none.
  if (uninterrupted([&] { return ::fsync(file_.get()); }) != 0 && errno != EINVAL)
    fail(Status::io, "{}: fsync failed: {}", path_, reason());
}

void replace_text(const Directory& folder, const std::string& name, std::string_view text,
                  Durability durability) {
  const bool durable = durability == Durability::synced;
  const std::string path = folder.path_of(name);
  const std::string draft = format("{}.tmp-{}", name, ::getpid());
  folder.require_file(name);
  TemporaryFile unfinished(folder.path_of(draft));
  Descriptor file = folder.create(draft);
  if (!write_all(file.get(), text))
    fail(Status::io, "{}: write failed: {}", path, reason());
  if (durable && uninterrupted([&] { return ::fsync(file.get()); }) != 0)
    fail(Status::io, "{}: fsync failed: {}", path, reason());
  if (!file.close()) fail(Status::io, "{}: close failed: {}", path, reason());
  unfinished.place([&] { folder.rename(draft, name); });
  if (durable) folder.sync();
}

}  // namespace trireme
