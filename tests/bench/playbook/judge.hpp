// Predictions for runs, and how far they are from what was measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/playbook/neighbours.hpp"

namespace trireme::bench {

struct Prediction {
  StepTime time;                // with the correction of neighbours
  double slow_probability = 0;  // by its neighbours
  bool slow = false;            // taken for slow
  // Of the state that the run is taken to be in.
  double seconds() const { return slow ? time.slow : time.normal; }
};

// Learns from runs whose mesh and batch agree with their other columns and whose time was
// measured; the others are counted and left out.
// Throws Error(bad_content) for fewer of them than twice the constants.
class Predictor {
 public:
  explicit Predictor(std::span<const PlaybookRun> runs);

  // Reads nothing that was measured of `runs`.
  std::vector<Prediction> predict(std::span<const PlaybookRun> runs) const;

  // The constants with units and ranges, and how many runs they were fitted to.
  std::string describe() const;

  std::span<const double> constants() const { return constants_; }

 private:
  std::size_t fitted_ = 0;
  std::size_t left_out_ = 0;
  std::vector<double> constants_;
  std::unique_ptr<Neighbours> neighbours_;
};

// "row,predicted_seconds,measured_seconds", and a line for each run.
std::string table(std::span<const PlaybookRun> runs,
                  std::span<const Prediction> predictions);

// Errors by kind of run, and the choice of the best; each line begins with "# ".
std::string summary(std::span<const PlaybookRun> runs,
                    std::span<const Prediction> predictions);

}  // namespace trireme::bench
