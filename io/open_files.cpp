// OpenFiles: the least recently used file is closed first.
// SPDX-License-Identifier: Apache-2.0
#include "io/open_files.hpp"

#include <unistd.h>

#include <iterator>

namespace trireme::io {

OpenFile::~OpenFile() {
  h5.reset();
  if (descriptor >= 0) ::close(descriptor);
}

std::shared_ptr<OpenFile> OpenFiles::use(std::uint64_t key,
                                         const std::function<int()>& open) {
  std::list<Entry> closed;  // when others may go on: closing may take a while
  const std::lock_guard lock(mutex_);
  if (const auto found = known_.find(key); found != known_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().second;
  }
  while (entries_.size() >= most_) {
    known_.erase(entries_.back().first);
    closed.splice(closed.begin(), entries_, std::prev(entries_.end()));
  }
  entries_.emplace_front(key, std::make_shared<OpenFile>(open()));
  known_[key] = entries_.begin();
  ++opened_;
  return entries_.front().second;
}

void OpenFiles::forget(std::uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(key);
  if (found == known_.end()) return;
  entries_.erase(found->second);
  known_.erase(found);
}

std::size_t OpenFiles::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::int64_t OpenFiles::opened() const {
  const std::lock_guard lock(mutex_);
  return opened_;
}

// Never destroyed: sources may outlive the other objects of the process.
OpenFiles& open_data_files() {
  static auto* const files = new OpenFiles(most_open_files);
  return *files;
}

}  // namespace trireme::io
