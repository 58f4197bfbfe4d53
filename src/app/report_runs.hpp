// ReportedRun: all that a report says of a run, read from its directory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/run_state.hpp"
#include "io/deck_settings.hpp"
#include "io/metrics_history.hpp"
#include "io/run_status.hpp"

namespace trireme::app {

struct ReportedRun {
  std::string name, directory;
  io::MetricsHistory metrics;
  RunState state;
  std::vector<io::RunStart> starts;
  std::vector<io::DeckSetting> settings;  // of its deck.toml
  std::vector<std::string> overrides;     // of a sweep's point

  // Steps after which it went on, once it had been stopped.
  std::vector<std::int64_t> restarts() const;
};

// Which keys of metrics.jsonl are read: those of plots and totals, or every one.
enum class KeysRead : std::uint8_t { of_reports, all };

// The runs that words of the command line name: a run's directory, or a sweep's
// sweep.toml or its directory, which stands for those of its points that have begun.
// Throws Error(missing_input) for a word that names none.
std::vector<ReportedRun> read_runs(const std::vector<std::string>& words,
                                   KeysRead keys = KeysRead::of_reports);

// Sums and means over the steps that a run's metrics.jsonl has.
struct RunTotals {
  std::int64_t steps = 0, checkpoints = 0;
  double tokens = 0;
  double seconds = 0;         // of steps
  double waited_seconds = 0;  // of training for checkpoints
  double rank_hours = 0;      // ranks of the last start x hours of steps
  double tokens_per_second = 0, mfu = 0, best_mfu = 0;
  std::optional<double> joules;  // of all GPUs, or, without any, of all nodes
};
RunTotals totals_of(const ReportedRun& run);

// The time of a step by what it was spent on; the parts add up to the step.
struct StepParts {
  io::Series compute;  // forward, backward and what hides behind them
  io::Series exposed;  // waiting for messages, wherever in the step
  // False where a GPU carried some messages and no host knows how long it waited:
  // `exposed` is then what was left of the reductions after backward, no more.
  bool knows_waits = true;
  io::Series optimizer;  // norm and update
  io::Series data;       // waiting for data
  io::Series other;
};
StepParts step_parts(const ReportedRun& run);

// Waiting for messages, by group, of those collectives of which it is known.
std::map<std::string, io::Series> exposed_by_group(const ReportedRun& run);

// The loss that runs are compared by: the last of validation if every run has one, else
// the mean of the last twentieth of the steps; nothing for a run without a loss.
std::vector<std::optional<double>> final_losses(const std::vector<ReportedRun>& runs);

// A key of the deck in which runs differ (not of what they write down), and how much of
// the losses' spread it explains.
struct DifferingKey {
  std::string key;
  std::vector<std::string> values;  // of each run; "" where its deck lacks the key
  // Share of the variance of the final losses that lies between its values rather than
  // within them; nothing for fewer than three runs, or where each run has a value of its
  // own and nothing can be told apart.
  std::optional<double> share;
  struct Group {
    std::string value;
    std::size_t runs = 0;
    double mean = 0, best = 0;  // of final losses
  };
  std::vector<Group> groups;  // by mean, the lowest first
};
std::vector<DifferingKey> differing_keys(
    const std::vector<ReportedRun>& runs,
    const std::vector<std::optional<double>>& losses);

// Whether two keys tell the same runs apart.
bool splits_alike(const DifferingKey& a, const DifferingKey& b);

}  // namespace trireme::app
