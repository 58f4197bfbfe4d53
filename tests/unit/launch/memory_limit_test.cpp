// Limits of memory from control groups and Slurm's variables.
// SPDX-License-Identifier: Apache-2.0
#include "launch/memory_limit.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace trireme::launch {
namespace {

TEST(MemoryLimit, IsTheLeastOfTheGroupAndThoseAboveIt) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("groups_" + std::to_string(::getpid()));
  std::filesystem::create_directories(root / "job/step");
  const auto set = [&](const std::string& group, const std::string& text) {
    std::ofstream(root / group / "memory.max") << text << "\n";
  };
  EXPECT_EQ(group_memory_limit(root.string(), "/job/step"), 0);
  set("job/step", "max");
  EXPECT_EQ(group_memory_limit(root.string(), "/job/step"), 0);
  set("job", "4096");
  EXPECT_EQ(group_memory_limit(root.string(), "/job/step"), 4096);
  set("job/step", "1024");
  EXPECT_EQ(group_memory_limit(root.string(), "/job/step"), 1024);
  EXPECT_EQ(group_memory_limit(root.string(), "/job"), 4096);
  set("", "512");
  EXPECT_EQ(group_memory_limit(root.string(), "/job/step"), 512);
  EXPECT_EQ(group_memory_limit(root.string(), "/"), 512);
  const char* const version1 = "memory.limit_in_bytes";
  EXPECT_EQ(group_memory_limit(root.string(), "/job/step", version1), 0);
  std::ofstream(root / "job" / version1) << "9223372036854771712\n";  // no limit
  std::ofstream(root / "job/step" / version1) << "2048\n";
  EXPECT_EQ(group_memory_limit(root.string(), "/job/step", version1), 2048);
  std::filesystem::remove_all(root);
}

TEST(MemoryLimit, HearsSlurm) {
  const MemoryLimit here = node_memory_limit();
  EXPECT_GT(here.bytes, 0);
  ::setenv("SLURM_MEM_PER_NODE", "16", 1);
  EXPECT_EQ(node_memory_limit().bytes, 16 << 20);
  EXPECT_EQ(node_memory_limit().from, "SLURM_MEM_PER_NODE");
  ::unsetenv("SLURM_MEM_PER_NODE");
  ::setenv("SLURM_MEM_PER_CPU", "3", 1);
  EXPECT_EQ(node_memory_limit().bytes, here.bytes);  // of how many is not said
  ::setenv("SLURM_CPUS_ON_NODE", "4", 1);
  EXPECT_EQ(node_memory_limit().bytes, 12 << 20);
  ::unsetenv("SLURM_MEM_PER_CPU");
  ::unsetenv("SLURM_CPUS_ON_NODE");
  EXPECT_EQ(node_memory_limit().bytes, here.bytes);
}

TEST(MemoryLimit, LeavesARankItsShareOfWhatIsFree) {
  const std::int64_t alone = free_host_memory(1), shared = free_host_memory(4);
  EXPECT_GT(alone, 0);
  EXPECT_LT(alone, node_memory_limit().bytes);
  EXPECT_LT(shared, alone);
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  // 32 MiB more address space than the program has.
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  constexpr std::int64_t more = 32 << 20;
  struct rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + more);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  const std::int64_t left = free_host_memory(1);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_GT(left, 0);
  EXPECT_LE(left, more);
}

}  // namespace
}  // namespace trireme::launch
