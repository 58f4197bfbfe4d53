// MlflowFolder: a run in the layout of MLflow's file store, mlruns/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/directory.hpp"
#include "io/tracker.hpp"

namespace trireme::io {

// mlruns/<experiment>/<run>/ below the store: meta.yaml, params/ (the deck's keys),
// tags/, metrics/ (a file a metric, a line "milliseconds value step" a point) and
// artifacts/deck.toml. All runs are of one experiment, "trireme". The run's id is a
// digest of its directory, so that a start goes on with the run of the one before, less
// the points after the step that it resumed from; a run that begins anew gets another.
//
// Points are written at most ten seconds after they were made, and with each checkpoint.
class MlflowFolder : public Tracker {
 public:
  explicit MlflowFolder(const TrackedRun& run);

  void write(const Record& record) override;
  void write_text(std::int64_t step, const std::string& tag,
                  const std::string& text) override;
  void finish(RunEnd end) override;
  const std::string& path() const { return path_; }

 private:
  using Clock = std::chrono::steady_clock;

  void write_meta(int status, double end_time) const;
  void put(const std::string& folder, const std::string& name,
           const std::string& text) const;
  void flush();

  std::string path_, id_, name_;
  std::int64_t start_ = 0;                      // milliseconds since 1970
  std::map<std::string, std::string> waiting_;  // lines by metric
  Clock::time_point flushed_ = Clock::now();
};

}  // namespace trireme::io
