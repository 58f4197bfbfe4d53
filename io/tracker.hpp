// Tracker: the numbers of a run in the form of another program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "io/deck_settings.hpp"
#include "io/metrics.hpp"

namespace trireme::io {

// How a start of a run has ended: with all its steps, with a checkpoint to go on from, or
// otherwise.
enum class RunEnd : std::uint8_t { done, stopped, failed };

// What a tracker tells of a run before its first step.
struct TrackedRun {
  std::string name;                   // run.name
  std::string directory;              // of the run
  std::string store;                  // the folder that trackers' own folders lie in
  std::string deck;                   // the effective deck
  std::vector<DeckSetting> settings;  // its keys and values
  std::int64_t resumed = 0;  // steps of this directory that were done before this start
};

// On rank 0 alone. Functions throw Error(io) or Error(cannot_create).
class Tracker {
 public:
  Tracker() = default;
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;
  virtual ~Tracker() = default;

  // The numbers of a record, those of records within too, at its "step".
  virtual void write(const Record& record) = 0;
  virtual void write_text(std::int64_t step, const std::string& tag,
                          const std::string& text) = 0;
  virtual void finish(RunEnd end) = 0;
};

// "train/loss" of "loss": the name under which trackers show a key of metrics.jsonl.
std::string tag_of(const std::string& key);

// A number with its tag, and what a record says in such numbers at which step.
using Scalar = std::pair<std::string, double>;
struct StepScalars {
  std::int64_t step = 0;
  std::vector<Scalar> scalars;
};
StepScalars scalars_of(const Record& record);

}  // namespace trireme::io
