// Trackers: the programs that a run's numbers go to, none of which can end the run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/tracker.hpp"

namespace trireme::io {

// Words of metrics.trackers.
inline constexpr const char* tracker_names[] = {"tensorboard", "wandb", "mlflow"};

// A tracker that fails is told of by a warning, once, and left out from then on: what it
// would show is in metrics.jsonl.
class Trackers {
 public:
  Trackers() = default;
  Trackers(const Trackers&) = delete;
  Trackers& operator=(const Trackers&) = delete;
  ~Trackers();  // those that no one finished have failed

  void open(const std::vector<std::string>& names, const TrackedRun& run);
  void add(const std::string& name, std::unique_ptr<Tracker> tracker);
  void write(const Record& record);
  void write_text(std::int64_t step, const std::string& tag, const std::string& text);
  void finish(RunEnd end);

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<Tracker> tracker;
  };
  void for_each(const std::function<void(Tracker&)>& call);

  std::vector<Entry> entries_;
};

}  // namespace trireme::io
