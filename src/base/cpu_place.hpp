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

struct CpuPlace {
  std::vector<int> cores;       // logical ones that this process may run on
  std::vector<int> numa_nodes;  // that they belong to; empty: unknown
};

// Of this process now.
CpuPlace cpu_place();

// NUMA node of a PCI device ("0000:3b:00.0"), or -1: unknown.
int numa_node_of(const std::string& pci_bus_id);

// "AMD EPYC 7763 64-Core Processor, 256 logical cores, 8 NUMA nodes, 503 GiB; mlx5_0 200
// Gb/sec (4X HDR)": this node, its memory and its fast network, as far as known.
std::string describe_node();

}  // namespace trireme
