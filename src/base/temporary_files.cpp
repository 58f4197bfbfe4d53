// Files that are not whole yet.
// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_files.hpp"

#include <unistd.h>

#include <mutex>
#include <set>
#include <utility>

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
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.files.erase(this) != 0) ::unlink(path_.c_str());
}

void TemporaryFile::place(const std::function<void()>& rename) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  rename();
  all.files.erase(this);
}

void remove_temporary_files() noexcept {
  Registry& all = registry();
  // Without a guard that unlocks: what is being written now must not get its place.
  all.mutex.lock();
  for (const TemporaryFile* file : all.files) ::unlink(file->path().c_str());
}

}  // namespace trireme
