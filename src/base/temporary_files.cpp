// Files that are not whole yet.
// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_files.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.hpp"

namespace trireme {
namespace {

// Never destroyed: the process may end while another thread holds them.
struct Registry {
  std::mutex mutex;
  std::set<const TemporaryFile*> files;
};

Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

}  // namespace

TemporaryFile::TemporaryFile(std::string path) : path_(std::move(path)) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.files.insert(this);
}

TemporaryFile::~TemporaryFile() {
  if (temporary_) ::unlink(path_.c_str());
  keep();
}

void TemporaryFile::rename_to(const std::string& path) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (::rename(path_.c_str(), path.c_str()) != 0)
    fail(Status::cannot_create, "{}: cannot be replaced: {}", path, std::strerror(errno));
  temporary_ = false;
  all.files.erase(this);
}

void TemporaryFile::keep() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  temporary_ = false;
  all.files.erase(this);
}

void remove_temporary_files() noexcept {
  Registry& all = registry();
  // Without a guard that unlocks: what is being written now must not get its place.
  all.mutex.lock();
  for (const TemporaryFile* file : all.files) ::unlink(file->path().c_str());
}

}  // namespace trireme
