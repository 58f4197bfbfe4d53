// Limits of memory: of the node, control groups and Slurm.
// SPDX-License-Identifier: Apache-2.0
#include "launch/memory_limit.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/memory.hpp"

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

// The group of this process: of the line "0::PATH" in version 2, and of the line
// "N:...,memory,...:PATH" in version 1.
std::string own_group(bool version1) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t names = line.find(':') + 1, end = line.find(':', names);
    if (names == 0 || end == std::string::npos) continue;
    const std::string list = "," + line.substr(names, end - names) + ",";
    const bool found =
        version1 ? list.find(",memory,") != std::string::npos : line.starts_with("0::");
    if (found) return line.substr(end + 1);
  }
  return "/";
}

// Bytes of a line "VmSize:  123 kB" of a file of the system; 0: it has none.
std::int64_t bytes_of_line(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":"))
      return number_of(line.substr(name.size() + 1)) * 1024;
  return 0;
}

// What a limit of this process leaves beside what it has.
void take_rest(std::int64_t& least, decltype(RLIMIT_AS) which, const char* used) {
  struct rlimit limit {};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const auto bytes = static_cast<std::int64_t>(limit.rlim_cur) -
                     bytes_of_line("/proc/self/status", used);
  least = std::min(least, std::max<std::int64_t>(bytes, 0));
}

}  // namespace

std::int64_t group_memory_limit(const std::string& root, std::string_view path,
                                const char* file) {
  std::int64_t least = 0;
  std::string at(path);
  while (true) {
    std::ifstream in(root + (at == "/" ? "" : at) + "/" + file);
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
  constexpr auto by_group = "the control group of this process";
  take_lesser(limit, group_memory_limit("/sys/fs/cgroup", own_group(false)), by_group);
  take_lesser(limit,
              group_memory_limit("/sys/fs/cgroup/memory", own_group(true),
                                 "memory.limit_in_bytes"),
              by_group);
  constexpr std::int64_t mebi = 1 << 20;
  take_lesser(limit, variable("SLURM_MEM_PER_NODE") * mebi, "SLURM_MEM_PER_NODE");
  take_lesser(limit,
              variable("SLURM_MEM_PER_CPU") * variable("SLURM_CPUS_ON_NODE") * mebi,
              "SLURM_MEM_PER_CPU x SLURM_CPUS_ON_NODE");
  return limit;
}

std::int64_t free_host_memory(int ranks_on_node) {
  const std::int64_t limit = node_memory_limit().bytes / ranks_on_node;
  std::int64_t least = std::max<std::int64_t>(limit - resident_bytes(), 0);
  const std::int64_t available = bytes_of_line("/proc/meminfo", "MemAvailable");
  if (available > 0) least = std::min(least, available / ranks_on_node);
  take_rest(least, RLIMIT_AS, "VmSize");
  take_rest(least, RLIMIT_DATA, "VmData");
  return least;
}

}  // namespace trireme::launch
