// What it means that a step that was computed twice came out differently.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "engine/step_print.hpp"

namespace trireme::train {

// What a rank says of its two runs.
struct RerunReport {
  engine::StepDifference difference;
  // Ranks whose activations or rows meet within a step have the same number: what one of
  // them computes enters the numbers of the others.
  int partners = 0;
  std::string host;
};

// Who computed wrongly, and why that can be said of them.
struct RerunVerdict {
  std::string text;        // of the message; "": the runs are the same on every rank
  std::vector<int> wrong;  // ranks that are certain
};
RerunVerdict judge_reruns(std::int64_t step, const std::vector<RerunReport>& ranks);

// Compares what all ranks say. Where a run differs, throws an Agreed Error(corruption)
// with the verdict, and names the hosts of ranks that are certain to the job's script.
// Collective over the world.
void check_reruns(comm::World& world, const comm::Mesh& mesh, std::int64_t step,
                  const engine::StepDifference& mine);

}  // namespace trireme::train
