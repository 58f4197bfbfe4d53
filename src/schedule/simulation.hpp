// Runs a pipeline schedule on a clock instead of a machine.
// SPDX-License-Identifier: Apache-2.0
// It yields time, idle share and memory, and whether the schedule can run at all.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace trireme::schedule {

// What a stage costs, in any one unit of time. `backward` takes the sum of its two parts.
// `saved` is what a microbatch holds from forward to the end of its backward, in any unit
// (bytes, or 1 to count).
struct StageCost {
  double forward = 1.0;
  double backward_input = 1.0;
  double backward_weight = 1.0;
  double saved = 1.0;
};

// When a message moves. In each mode it then takes `latency`, and a computation starts
// when its input is there.
enum class SendMode : std::uint8_t {
  buffered,    // as soon as it is sent
  rendezvous,  // when it is sent and its receive is posted
  blocking  // as rendezvous, and the sender does nothing else until it has arrived: the
            // strictest reading; what runs here runs in the other modes, and with any
            // number of send buffers from 1
};

struct SimulationOptions {
  // Of each stage; one entry: of all; empty: unit costs.
  std::vector<StageCost> stages = {};
  double latency = 0.0;  // of a message, in the unit of the costs
  SendMode sends = SendMode::rendezvous;
  // If not empty: what each action of each rank's schedule takes, in place of `stages`;
  // entries of sends and receives are not read.
  std::vector<std::vector<double>> actions = {};
};

struct ActionTime {
  double start = 0.0;
  double end = 0.0;  // of a send or receive: when the rank goes on
};

struct RankSimulation {
  std::vector<ActionTime> actions;  // of each action of the rank's schedule
  double busy = 0.0;                // time spent computing
  double idle_share = 0.0;          // 1 - busy / total of the whole pipeline
  double idle_inside = 0.0;         // idle between its first and its last computation
  std::int64_t most_live = 0;       // (chunk, microbatch) between forward and its end
  std::vector<std::int64_t> most_live_of_chunk;
  double most_saved = 0.0;  // the same in units of StageCost::saved
};

struct Simulation {
  double total = 0.0;   // from 0 to the end of the last computation of any rank
  double bubble = 0.0;  // total / (busy time of the busiest rank) - 1
  std::vector<RankSimulation> ranks;
};

// Runs the schedules, one per rank, until all are done.
//   shape:     ranks, chunks and microbatches; its kind says where stages live
//   schedules: of make_schedules or forward_schedules, or any others of that shape
// Cost: linear in the number of actions.
// Throws Error(internal), naming rank and action, for a rank, chunk, peer or microbatch
// out of range; a computation that runs twice, or before what it needs on its own rank;
// one whose receive is not posted; a send of what has not been made; a receive that does
// not match the send in the same place; a message that nobody receives or sends; a
// deadlock.
Simulation simulate(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                    const SimulationOptions& options = {});

}  // namespace trireme::schedule
