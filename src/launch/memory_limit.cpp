// Limits of memory: of the node, control groups and Slurm.
// SPDX-License-Identifier: Apache-2.0
#include "launch/memory_limit.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace trireme::launch {
namespace {

// The number that a text begins with; 0 for none ("max").
std::int64_t number_of(const std::string& text) {
  const long long value = std::strtoll(text.c_str(), nullptr, 10);
  return value > 0 ? value : 0;
}

std::int64_t variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : number_of(text);
}

void take_lesser(MemoryLimit& limit, std::int64_t bytes, const char* from) {
  if (bytes <= 0 || (limit.bytes > 0 && bytes >= limit.bytes)) return;
  limit = {bytes, from};
}

// The group of this process in version 2: the line "0::PATH".
std::string own_group() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("0::")) return line.substr(3);
  return "/";
}

}  // namespace

std::int64_t group_memory_limit(const std::string& root, std::string_view path) {
  std::int64_t least = 0;
  std::string at(path);
  while (true) {
    std::ifstream in(root + (at == "/" ? "" : at) + "/memory.max");
    std::string text;
    if (std::getline(in, text)) {
      const std::int64_t bytes = number_of(text);
      if (bytes > 0 && (least == 0 || bytes < least)) least = bytes;
    }
    if (at.empty() || at == "/") return least;
    at.resize(at.find_last_of('/') == std::string::npos ? 0 : at.find_last_of('/'));
  }
}

MemoryLimit node_memory_limit() {
  MemoryLimit limit;
  take_lesser(
      limit,
      static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGE_SIZE),
      "this node's memory");
  take_lesser(limit, group_memory_limit("/sys/fs/cgroup", own_group()),
              "the control group of this process");
  constexpr std::int64_t mebi = 1 << 20;
  take_lesser(limit, variable("SLURM_MEM_PER_NODE") * mebi, "SLURM_MEM_PER_NODE");
  take_lesser(limit,
              variable("SLURM_MEM_PER_CPU") * variable("SLURM_CPUS_ON_NODE") * mebi,
              "SLURM_MEM_PER_CPU x SLURM_CPUS_ON_NODE");
  return limit;
}

}  // namespace trireme::launch
