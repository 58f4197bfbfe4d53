// How far a run has come, and how long its parts take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

namespace trireme::train {

// The trainer's parts share one. Each field has one writer.
struct Progress {
  std::int64_t step = 0;    // optimizer steps done
  std::int64_t tokens = 0;  // trained on
  // Steps done before the first that this start trains: those of data.skip_steps move it.
  std::int64_t first_step = 0;
  // Of these, those that this directory's metrics tell of: none where the checkpoint is
  // another directory's. On rank 0 (Checkpoints).
  std::int64_t own_steps = 0;
  std::int64_t samples = 0;                                // of the data (Trainer)
  double loss = std::numeric_limits<double>::quiet_NaN();  // of the last step (Trainer)
  double step_seconds = 0;        // usual time of a step, smoothed (Recorder)
  double predicted_seconds = 0;   // of a step, by a plan; 0: none (Trainer)
  double save_seconds = 0;        // of the last checkpoint, or predicted (Checkpoints)
  double validation_seconds = 0;  // of the last validation (Trainer)
  double validation_loss = 0;     // of the same, after the step (Trainer)
  std::int64_t validated_step = -1;
};

}  // namespace trireme::train
