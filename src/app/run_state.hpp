// RunState: what a run is doing, from the files that it writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace trireme::app {

enum class RunPhase : std::uint8_t { waiting, running, done, failed, stopped };
std::string name_of(RunPhase phase);

struct RunState {
  RunPhase phase = RunPhase::waiting;  // stopped: with a checkpoint, to be run again
  std::int64_t step = 0, steps = 0;    // done, wanted
  std::optional<double> loss, validation_loss;
  std::string note;              // of a failure; who runs it
  Status status = Status::done;  // of its end, where it has one
};

// A run that says that it runs but whose lock is free was killed: it has failed. Throws
// Error(io) when a file that is there cannot be read.
RunState run_state(const std::string& directory);

}  // namespace trireme::app
