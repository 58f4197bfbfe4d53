// Where each rank of a job computes, and how its messages travel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/cuda_devices.hpp"
#include "base/device.hpp"
#include "comm/transport.hpp"
#include "comm/world.hpp"
#include "config/run_config.hpp"

namespace trireme::launch {

struct ComputeDevice {
  Device device;
  CudaDevice gpu;              // of this rank, if it computes on one
  std::int64_t gpu_bytes = 0;  // of the smallest GPU of any rank
  comm::Transport transport = comm::Transport::mpi;

  // "NVIDIA H100 80GB HBM3, NCCL", for the log.
  std::string describe() const;
};

// Throws Error(resources) for GPUs in a program that has no CUDA.
void require_built_for(config::DeviceChoice wanted);

// wanted: automatic takes GPUs if every rank's node has one, else the CPU; an emulated
// GPU is taken only if it is asked for by cuda. backend: comm.backend. Collective over
// the world. Throws Error(resources), on every rank, when what is wanted cannot be had.
ComputeDevice choose_device(comm::World& world, config::DeviceChoice wanted,
                            comm::Backend backend, bool share_gpus);

// The same for a plan, without a job: GPUs if they are asked for, or automatic finds one
// here. NCCL where the program has it, unless `backend` or shared GPUs rule it out.
ComputeDevice expected_device(config::DeviceChoice wanted, comm::Backend backend,
                              bool share_gpus);

}  // namespace trireme::launch
