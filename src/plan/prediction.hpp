// Prediction: how long a step and a run take on a machine, from plans that kept time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/machine.hpp"
#include "plan/plan.hpp"

namespace trireme::plan {

struct Prediction {
  double step_seconds = 0;
  double tokens_per_second = 0;
  double mfu = 0;  // 6 N + full attention, over the file's rate of large products
  // Of the busiest stage, in a step.
  double products = 0, attention = 0, sweeps = 0;
  double exposed = 0;  // that a rank waits for collectives; the most of any stage
  double host = 0;     // copies and updates of what is offloaded
  double ending = 0;   // after the last backward: reductions, norm, update
  std::vector<double>
      idle_shares;                // of each rank of the pipeline, in forward and backward
  double run_seconds = 0;         // run.steps, without checkpoints and failures
  double checkpoint_bytes = 0;    // of one checkpoint, of all ranks
  double save_seconds = 0;        // that training stands still for one
  double save_every_seconds = 0;  // between two; 0: none but the last
  double best_every_seconds = 0;  // where saving and failures cost least
  double failures_a_day = 0;      // of the whole job
  double goodput = 1;             // share of the time that is progress
};

// plans: of plan_stages(), made for `machine`. Pure: the same numbers for the same deck
// and machine file. Where a pipeline's stages take different times, the schedule's
// simulation runs with each action's own. Goodput: a save costs its time in each
// interval, a failure the mean of half an interval, a restart and a read (Young, 1974;
// Daly, 2006).
Prediction predict(const config::RunConfig& config, std::span<const Plan> plans,
                   const Machine& machine);

// As text, a line for each kind of thing.
std::string describe(const Prediction& prediction, const Machine& machine);

}  // namespace trireme::plan
