// ViewQueue: makes the views of checkpoints, one after the other, behind the run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "io/background.hpp"
#include "io/checkpoint_views.hpp"

namespace trireme::io {

// For rank 0. A thread makes what io/checkpoint_views.hpp describes for the checkpoints
// of a folder, that of the last one first. A failure is a warning: the checkpoint is
// whole without its views.
class ViewQueue {
 public:
  // Makes those of the checkpoint in a folder until `stops` says so, as make_views().
  using Maker =
      std::function<bool(const Directory& folder, const std::function<bool()>& stops)>;
  explicit ViewQueue(std::string directory, Maker maker = make_views)
      : directory_(std::move(directory)), maker_(std::move(maker)) {}
  // What is not made yet is left.
  ~ViewQueue();
  ViewQueue(const ViewQueue&) = delete;
  ViewQueue& operator=(const ViewQueue&) = delete;

  // Adds the checkpoint of this name, unless it has views or is a link to another place.
  void add(const std::string& name, RunIn run_in = RunIn::own_thread);
  // Takes those back that are removed or replaced: returns when nothing is written to
  // them any more, within the time that one tensor takes, or reading the index.
  void drop_if(const std::function<bool(const std::string& name)>& leaves);
  // Takes all back, and waits for nothing. Those that were to come.
  std::vector<std::string> drop_all();
  // Says whether the thread is at work.
  bool busy() const { return work_.busy(); }
  // Waits until all are made.
  void finish() { work_.finish(); }

 private:
  void make_all();
  void make(const std::string& name);
  bool take_next();
  bool is_dropped();

  std::string directory_;
  Maker maker_;
  std::mutex mutex_;  // guards those below
  std::condition_variable changed_;
  std::vector<std::string> waiting_;
  std::string current_;    // "": none is made
  bool dropped_ = false;   // the current one is not wanted
  bool has_work_ = false;  // a thread takes what is added
  Background work_;        // last: its thread uses the others
};

}  // namespace trireme::io
