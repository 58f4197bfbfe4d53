// RunState: what a run is doing, from the files that it writes.
// SPDX-License-Identifier: Apache-2.0
#include "app/run_state.hpp"

#include "base/error.hpp"
#include "io/metrics_history.hpp"
#include "io/run_status.hpp"

namespace trireme::app {
namespace {

std::optional<double> last_of(const io::Series& series) {
  if (series.empty()) return {};
  return series.rbegin()->second;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// Phase and note, from the lock and status.toml.
void judge(const std::string& directory, RunState& state) {
  if (const auto holder = io::RunLock::holder(directory)) {
    state.phase = RunPhase::running;
    state.note = holder->describe();
  }
  std::optional<io::RunStatus> status;
  try {
    status = io::read_run_status(directory);
  } catch (const Error& error) {
    if (state.phase == RunPhase::running) return;
    state.phase = RunPhase::failed;
    state.note = first_line(error.what());
    return;
  }
  if (!status) {
    // A start that fails says so, and takes its lock away.
    if (state.phase == RunPhase::running || !io::RunLock::is_there(directory)) return;
    state.phase = RunPhase::failed;
    state.note = "was killed while it started";
    return;
  }
  state.steps = status->steps;
  state.status = status->status;
  if (state.phase == RunPhase::running) return;
  if (status->running) {
    // It may have begun between the two looks.
    const auto holder = io::RunLock::holder(directory);
    state.phase = holder ? RunPhase::running : RunPhase::failed;
    state.note = holder ? holder->describe() : "was killed";
  } else if (status->status == Status::done) {
    state.phase = RunPhase::done;
  } else if (status->status == Status::run_again) {
    state.phase = RunPhase::stopped;
  } else {
    state.phase = RunPhase::failed;
    state.note = format("status {}: {}", static_cast<int>(status->status),
                        first_line(status->message));
  }
}

}  // namespace

std::string name_of(RunPhase phase) {
  switch (phase) {
    case RunPhase::waiting: return "waiting";
    case RunPhase::running: return "running";
    case RunPhase::done: return "done";
    case RunPhase::failed: return "failed";
    case RunPhase::stopped: return "stopped";
  }
  fail(Status::internal, "phase {}", static_cast<int>(phase));
}

RunState run_state(const std::string& directory) {
  RunState state;
  judge(directory, state);
  const io::MetricsHistory metrics = io::read_metrics(
      directory + "/metrics.jsonl",
      [](const std::string& key) { return key == "loss" || key == "validation_loss"; });
  const io::Series& losses = metrics.series_of("loss");
  if (!losses.empty()) state.step = losses.rbegin()->first;
  state.loss = last_of(losses);
  state.validation_loss = last_of(metrics.series_of("validation_loss"));
  return state;
}

}  // namespace trireme::app
