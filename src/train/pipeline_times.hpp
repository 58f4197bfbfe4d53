// PipelineTimes: what the actions of the last steps took.
// SPDX-License-Identifier: Apache-2.0
// From that it follows how idle a pipeline is where they take that long.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/tensor_view.hpp"
#include "comm/mesh.hpp"
#include "schedule/schedule.hpp"

namespace trireme::train {

// Idle shares of the ranks of a pipeline, as means over steps.
struct IdleShares {
  std::vector<double> measured, simulated;
};

// Keeps the last steps in memory that is allocated once. A step is simulated with its own
// times, action by action: means would hide that a pipeline waits for the slower of two
// microbatches that vary.
class PipelineTimes {
 public:
  static constexpr std::size_t most_steps = 8;

  // The mesh outlives this. Empty if the pipeline is of one rank.
  PipelineTimes(comm::Mesh& mesh, const schedule::PipelineShape& shape);

  // A step: seconds of each action of this rank's schedule, without waiting for others,
  // and what engine::StepTotals says of all ranks.
  void add(std::span<const double> action_seconds,
           const std::vector<double>& idle_shares);

  // Of the steps kept, on every rank of the mesh alike: a mean over the pipelines beside
  // each other. Collective over the mesh. Neighbours first send each other messages of
  // the shape and type of what goes from stage to stage, on the mesh's device, to learn
  // what one takes.
  IdleShares compare(const Shape& message, DType dtype);

 private:
  double message_seconds(const Shape& message, DType dtype);

  comm::Mesh& mesh_;
  schedule::PipelineShape shape_;
  std::vector<schedule::Schedule> schedules_;
  std::size_t width_ = 0;        // most actions of a rank
  std::size_t steps_ = 0;        // added so far
  std::vector<double> actions_;  // [most_steps, width_], a ring
  std::vector<double> idle_;     // [most_steps, ranks]
};

}  // namespace trireme::train
