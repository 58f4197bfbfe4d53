// ViewQueue: makes the views of checkpoints, one after the other, behind the run.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_view_queue.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.hpp"
#include "base/path.hpp"

namespace trireme::io {

ViewQueue::~ViewQueue() { drop_all(); }

void ViewQueue::add(const std::string& name, RunIn run_in) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(name);
  if (has_work_) return;
  has_work_ = true;
  work_.finish();  // of a thread that is at its end
  work_.start([this] { make_all(); }, run_in);
}

void ViewQueue::drop_if(const std::function<bool(const std::string& name)>& leaves) {
  std::unique_lock lock(mutex_);
  std::erase_if(waiting_, leaves);
  if (current_.empty() || !leaves(current_)) return;
  dropped_ = true;
  changed_.wait(lock, [&] { return !dropped_; });
}

std::vector<std::string> ViewQueue::drop_all() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> left;
  if (!current_.empty()) left.push_back(current_);
  left.insert(left.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  dropped_ = !current_.empty();
  return left;
}

void ViewQueue::make_all() {
  while (take_next()) make(current_);
}

// The one before is done with.
bool ViewQueue::take_next() {
  const std::lock_guard lock(mutex_);
  dropped_ = false;
  changed_.notify_all();
  has_work_ = !waiting_.empty();
  current_ = has_work_ ? waiting_.back() : "";
  if (has_work_) waiting_.pop_back();
  return has_work_;
}

bool ViewQueue::is_dropped() {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void ViewQueue::make(const std::string& name) try {
  struct stat status {};  // one look for a start that finds them, as most do
  const std::string views = directory_ + "/" + name + "/" + whole_name;
  if (::lstat(views.c_str(), &status) == 0) return;
  const auto all = Directory(parent_of(directory_)).find(last_name_of(directory_));
  if (!all || all->is_link(name)) return;  // who keeps it elsewhere does not want it
  const auto folder = all->find(name);
  if (folder) maker_(*folder, [&] { return is_dropped(); });
} catch (const std::exception& error) {
  if (is_dropped() || !is_there(directory_ + "/" + name)) return;
  log::warn(
      "{}/{}: its views of whole tensors cannot be made: {}; the checkpoint is whole "
      "without them, and trireme inspect --make-views makes them",
      directory_, name, error.what());
}

}  // namespace trireme::io
