// Threads, chunks and what the libraries say about themselves.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/runtime.hpp"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/cpu_place.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/runtime/bandwidth.hpp"

namespace trireme::kernels {
namespace {

TEST(Runtime, HasThreads) { EXPECT_GE(threads(), 1); }

TEST(Runtime, ThereIsOne) { EXPECT_THROW(Runtime(1), Error); }

TEST(Runtime, NamesItsLibraries) {
  const auto versions = library_versions();
  ASSERT_GE(versions.size(), 4u);
  for (const auto& [name, version] : versions) {
    EXPECT_FALSE(name.empty());
    EXPECT_FALSE(version.empty()) << name;
  }
}

// Cores of the calling thread.
int cores_of_thread() {
  cpu_set_t mask;
  return ::sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 0;
}

// OpenMP binds the initial thread before main(): this program runs once more, bound.
TEST(BoundThreads, AllCoresOfTheProcessAreUsed) {
  const char* const bound = std::getenv("OMP_PROC_BIND");
  if (bound == nullptr || std::string_view(bound) != "true") {
    const std::string again = format(
        "env -u OMP_NUM_THREADS OMP_PROC_BIND=true OMP_PLACES=threads '{}' "
        "--gtest_filter=BoundThreads.*",
        std::filesystem::read_symlink("/proc/self/exe").string());
    EXPECT_EQ(std::system(again.c_str()), 0);
    return;
  }
  const int cores = omp_get_num_procs();
  EXPECT_EQ(cores_of_thread(), 1);
  EXPECT_EQ(allowed_cores().size(), static_cast<std::size_t>(cores));
  EXPECT_EQ(usual_threads(1), cores);
  unbind_new_threads();
  int of_new_thread = 0;
  std::thread([&] { of_new_thread = cores_of_thread(); }).join();
  EXPECT_EQ(of_new_thread, cores);
  EXPECT_EQ(cores_of_thread(), 1);  // the compute thread keeps its place
}

TEST(RunChunks, CallsEachOnce) {
  for (const std::int64_t chunks : {0, 1, 2, 3, 7, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(chunks));
    run_chunks("test", chunks,
               ChunkBody([&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; }));
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
}

TEST(RunChunks, NestedCallsRunSerially) {
  std::vector<std::vector<std::int64_t>> orders(8);
  run_chunks("outer", 8, ChunkBody([&](std::int64_t i) {
               run_chunks("inner", 5, ChunkBody([&](std::int64_t j) {
                            orders[static_cast<std::size_t>(i)].push_back(j);
                          }));
             }));
  for (const auto& order : orders)
    EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(RunChunks, AnErrorInABodyReachesTheCaller) {
  const auto body = [](std::int64_t i) {
    require(i != 3, Status::diverged, "chunk {}", i);
  };
  try {
    run_chunks("test", 8, ChunkBody(body));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::diverged);
    EXPECT_STREQ(error.what(), "chunk 3");
  }
}

TEST(ForRanges, CoverEverythingOnce) {
  for (const std::int64_t n : {0, 1, 5, 1000, 1001}) {
    std::vector<int> seen(static_cast<std::size_t>(n));
    for_ranges("test", n, 3, threads(), [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(n), 1));
  }
}

TEST(Bandwidth, IsPositive) {
  EXPECT_GT(triad_bandwidth(100001, 2), 0);
  EXPECT_GT(read_bandwidth(100001, 2), 0);
  EXPECT_GT(copy_bandwidth(Device::host(), 400004, 2), 0);
}

}  // namespace
}  // namespace trireme::kernels
