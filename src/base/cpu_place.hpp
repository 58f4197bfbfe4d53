// The cores that a process may run on, and where its node's parts are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// "0-3,8" from and to ascending numbers, as the kernel writes them. Words that are no
// numbers are left out.
std::string ranges_text(const std::vector<int>& numbers);
std::vector<int> parse_ranges(std::string_view text);

// Cores that the calling thread may run on, ascending: its affinity mask.
std::vector<int> cores_of_this_thread();

// Cores that this process may run on, ascending: those of the calling thread. Where
// OMP_PROC_BIND or OMP_PLACES is set, OpenMP has bound the initial thread to one place
// before main() began: then those of all places, too.
std::vector<int> allowed_cores();

// Threads that are created from here on may run on all allowed_cores(). Without this they
// would stay on the place that the initial thread is bound to, with the compute thread
// there; OpenMP's own threads keep their places.
void unbind_new_threads();

struct CpuPlace {
  std::vector<int> cores;       // logical ones
  std::vector<int> numa_nodes;  // that they belong to; empty: unknown
};

// Of these cores.
CpuPlace cpu_place(std::vector<int> cores);

// NUMA node of a PCI device ("0000:3b:00.0"), or -1: unknown.
int numa_node_of(const std::string& pci_bus_id);

// "AMD EPYC 7763 64-Core Processor, 256 logical cores, 8 NUMA nodes, 503 GiB; mlx5_0 200
// Gb/sec (4X HDR)": this node, its memory and its fast network, as far as known.
std::string describe_node();

}  // namespace trireme
