// Plan: what a deck needs, read off the engine that the trainer will run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/memory.hpp"
#include "train/run_config.hpp"

namespace trireme::plan {

struct Plan {
  std::array<std::int64_t, memory_classes> memory{};  // bytes of one rank, by class
  std::int64_t local_parameters = 0;                  // on the rank
  std::int64_t parameters = 0;                        // of the model
  std::int64_t data_bytes = 0;    // sent per step by the rank, over data and context
  std::int64_t tensor_bytes = 0;  // over the tensor axis
  double flops_per_step = 0;      // of the whole job, full attention

  std::int64_t total_memory() const;
};

// Builds rank `rank` of the mesh on the meta device and runs one step of it there:
// nothing is allocated, nothing is sent.
Plan make_plan(const train::RunConfig& config, int rank);

// The plan as text: mesh, blocks, memory by class, traffic, FLOPs.
std::string describe(const train::RunConfig& config, const Plan& plan);

}  // namespace trireme::plan
