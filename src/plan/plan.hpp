// Plan: what a deck needs, read off the engine that the trainer will run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/device.hpp"
#include "comm/nccl_memory.hpp"
#include "comm/transport.hpp"
#include "engine/run_outlook.hpp"
#include "plan/machine.hpp"
#include "plan/memory_phases.hpp"

namespace trireme::plan {

// Where the ranks are to compute, and what carries the tensors of GPUs.
struct PlannedDevice {
  Device device;
  comm::Transport transport = comm::Transport::mpi;
  const Machine* machine = nullptr;  // if there is one: plans keep time
  std::int64_t gpu_bytes = 0;        // RunSettings::gpu_bytes, which plans take from here
  int threads = 1;  // of this process that make plans: what these say is the same
};

// The deck with what is known of these devices.
config::RunConfig known_on(const PlannedDevice& on, const config::RunConfig& config);

// Seconds of one rank in a step, if the plan kept time.
struct Timing {
  std::vector<double> action_seconds;  // of each action of the schedule
  double step_seconds = 0;             // without waiting for other stages
  double products = 0, attention = 0, sweeps = 0;
  double waiting = 0;                // for collectives
  double host = 0;                   // for what is offloaded
  double stage_message_seconds = 0;  // of the longest message between stages
  double round_seconds = 0;          // of the end of a round of optimizer.outer
  double checkpoint_bytes = 0;       // that this rank writes
};

// A unit that is shared out over ranks.
struct PlannedUnit {
  std::string name;
  std::int64_t parameters = 0;  // without padding
  std::int64_t share = 0;       // elements of each rank of the shard group, with padding
};

// Frozen weights that are codes, in bytes of one rank.
struct PlannedCodes {
  std::size_t codes = 0;
  std::size_t numbers = 0;  // that all of them would take
  std::size_t working = 0;  // of numbers that are there at a time
};

struct Plan {
  int rank = 0;                         // of the mesh
  ClassBytes memory{};                  // bytes of one rank, by class
  PhaseBytes used{};                    // of these, what each phase of a run uses
  std::int64_t kernel_bytes = 0;        // of the workspace: what kernels of a GPU hold
  std::optional<comm::NcclCount> nccl;  // beside the memory above
  // Of the node's memory, for the rank: copies of shards that outlive the program.
  std::int64_t copies_bytes = 0;
  // Tokens of texts, places of documents and references of answers that a rank keeps: no
  // plan knows them before the data are read.
  std::int64_t source_bytes = 0;
  // Of libraries, MPI and what products pack; on a GPU of the driver's context: an
  // estimate.
  std::int64_t program_bytes = 0;
  std::int64_t disk_bytes = 0;              // of the rank's file, offloaded to a disk
  std::int64_t disk_weight_bytes = 0;       // of these, weights
  std::int64_t local_parameters = 0;        // on the rank
  std::int64_t parameters = 0;              // of the model
  std::vector<engine::TrafficRow> traffic;  // of one step of the rank
  // Of the end of a round of optimizer.outer, where that is more than a step.
  std::vector<engine::TrafficRow> round_traffic;
  std::vector<PlannedUnit> units;  // of the rank
  PlannedCodes codes;              // with adapter.quantize
  double flops_per_step = 0;       // of the whole job, full attention
  Timing timing;

  std::int64_t total_memory() const;
};

// Builds rank `rank` of the mesh on the meta device and runs steps of it there: nothing
// is allocated, nothing is sent. Memory is what the engine and the transport hold in the
// steady state. What NVIDIA's driver and libraries take for themselves on a GPU is an
// estimate. Throws Error(resources) where the machine file lacks a rate that the deck
// needs.
Plan make_plan(const config::RunConfig& config, int rank, const PlannedDevice& on = {});

// What a rank takes for libraries and the program itself (Plan::program_bytes).
std::int64_t program_bytes(const PlannedDevice& on);

// For each pipeline stage the plan of a rank: of the first tensor group, the one that
// holds most.
std::vector<Plan> plan_stages(const config::RunConfig& config,
                              const PlannedDevice& on = {});

// plan_stages() as text: mesh, memory by class and traffic of the first plan, a table of
// the pipeline if there is one, FLOPs.
std::string describe(const config::RunConfig& config, std::span<const Plan> plans);

}  // namespace trireme::plan
