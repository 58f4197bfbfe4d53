// The GPUs that this process sees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct CudaDevice {
  std::string name;
  std::int64_t memory_bytes = 0;
  int compute_major = 0, compute_minor = 0;  // 9.0: Hopper
  bool emulated = false;                     // on the host, for tests: slow
  // The same for all processes. Instances of one card (MIG) have its bus id, as
  // "0000:3b:00.0", and each a UUID of its own, in hexadecimal.
  std::string pci_bus_id, uuid;
};

// Empty in a build without CUDA and on a machine without a GPU or a driver for this
// build. Throws Error(transport) when the driver answers with another error.
std::vector<CudaDevice> cuda_devices();
// How many these are, without asking each.
int count_cuda_devices();
// "the driver supports CUDA 12.4, and this program needs 13.0: ...", where a driver is
// too old for this build; else "".
std::string outdated_driver();

// The GPU for the process that is `rank_on_node` of `ranks_on_node` and sees `devices`
// GPUs: by turns. A process that sees one GPU takes that one: its launcher may have given
// each process another; who shares in truth, comm::check_sharing() finds by UUIDs.
// Throws Error(resources) when there is no GPU, or when several are seen that are fewer
// than the processes and `share` is false (run.share_gpus).
int cuda_device_of(int rank_on_node, int ranks_on_node, int devices, bool share);

// "13.0, driver 13.0", "13.0, no driver", or "not built in".
std::string cuda_version();

}  // namespace trireme
