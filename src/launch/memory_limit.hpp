// How much memory the processes of this node may use, and who says so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::launch {

struct MemoryLimit {
  std::int64_t bytes = 0;  // of all processes of the job on this node; 0: not known
  std::string from;        // "this node's memory", "SLURM_MEM_PER_NODE", ...
};

// The least of: what the node has, what its control groups allow this process, what Slurm
// gave the job (SLURM_MEM_PER_NODE, or SLURM_MEM_PER_CPU times SLURM_CPUS_ON_NODE).
MemoryLimit node_memory_limit();

// What a rank of so many on this node may still take: its share of what is free and of
// the limit above, less what it has, and what its limits of address space leave.
std::int64_t free_host_memory(int ranks_on_node);

// The limit of the control group at `path` ("/a/b", of /proc/self/cgroup) and of those
// above it, where groups are mounted at `root`: in files memory.max of version 2, or
// memory.limit_in_bytes of version 1. 0: none.
std::int64_t group_memory_limit(const std::string& root, std::string_view path,
                                const char* file = "memory.max");

}  // namespace trireme::launch
