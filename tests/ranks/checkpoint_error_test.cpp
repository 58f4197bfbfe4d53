// A system call fails on a rank: all throw the same error, the old checkpoint stands.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>

#include "io/checkpoint_writer.hpp"
#include "support/checkpoint_tensors.hpp"
#include "support/io_faults.h"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;
using test::fake_info;
using test::Memory;
using test::world;

void write_fake(const std::string& directory, std::int64_t step,
                bool background = false) {
  Memory memory;
  Retention retention;
  retention.keep = 1;
  CheckpointWriter writer(world(), directory, retention);
  writer.begin(fake_info(step), test::fake_boxes(memory, 1, world().size()), background);
  writer.finish();
  writer.finish_views();
}

bool has_views(const std::string& directory) {
  return fs::exists(directory + "/step-00000002/" + whole_name);
}

struct Fault {
  io_fault kind;
  int error;
  bool background = false;
};

// Writes step 2 over step 1 with the fault at call `at` of `rank`. Number of calls.
int write_with(const std::string& directory, Fault fault, int rank, int at,
               bool& failed) {
  if (world().rank() == rank)
    io_faults_arm(directory.c_str(), fault.kind, at, fault.error);
  failed = false;
  try {
    write_fake(directory, 2, fault.background);
  } catch (const comm::Agreed& error) {
    failed = true;
    EXPECT_TRUE(error.status() == Status::io || error.status() == Status::cannot_create)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(directory), std::string::npos)
        << error.what();
  }
  return static_cast<int>(world().sum(world().rank() == rank ? io_faults_disarm() : 0));
}

// May a write succeed although this call failed? Only when it makes a folder that is
// there, or removes the old checkpoint after the new one stands.
bool may_fail(const std::string& call, const Fault& fault) {
  // Interrupted calls are made again.
  if (fault.error == EINTR) return true;
  return call == "mkdirat" || call == "renameat" || call == "unlinkat";
}

// One rank's calls, each failing in turn. The fault may also fall on what comes after the
// new checkpoint stands (making its views, removing the old one), and then there is no
// error, and the next save makes up for it.
void sweep(const std::string& directory, Fault fault, int rank) {
  int failures = 0, calls = 0;
  for (int at = 0; at <= calls; ++at) {
    world().barrier();
    if (world().rank() == 0) fs::remove_all(directory);
    world().barrier();
    write_fake(directory, 1);
    bool failed = false;
    if (at == 0) {  // counts the calls
      calls = write_with(directory, {io_fault_none, fault.error, fault.background}, rank,
                         0, failed);
      ASSERT_FALSE(failed);
      continue;
    }
    write_with(directory, fault, rank, at, failed);
    failures += failed;
    const std::string call =
        world().broadcast(world().rank() == rank ? io_faults_struck() : "", rank);
    EXPECT_NE(call, "");
    EXPECT_TRUE(failed || may_fail(call, fault) || !has_views(directory))
        << call << " is call " << at;
    if (fault.error == EINTR) {
      EXPECT_FALSE(failed) << call << " is call " << at;
    }
    const CheckpointReader reader(directory);  // verifies every file
    // An error after the rename leaves both complete, and `latest` as it was or not.
    if (!failed) {
      EXPECT_EQ(reader.info().step, 2) << "call " << at;
    } else {
      EXPECT_TRUE(fs::exists(directory + "/step-00000001")) << "call " << at;
      EXPECT_TRUE(fault.kind != io_fault_once ||
                  !fs::exists(directory + "/.step-00000002.tmp"))
          << "call " << at;
    }
    write_fake(directory, 2);
    EXPECT_EQ(CheckpointReader(directory).info().step, 2) << "call " << at;
    EXPECT_TRUE(has_views(directory)) << "call " << at;
  }
  if (fault.error != EINTR) {
    EXPECT_GT(failures, 0);
  }
  if (world().rank() == 0)
    std::printf("rank %d: %d calls, %d of them end the write\n", rank, calls, failures);
}

TEST(CheckpointError, AnyCallOnAnyRank) {
  const test::SharedFolder folder;
  for (int rank = 0; rank < world().size(); ++rank)
    for (const Fault fault :
         {Fault{io_fault_once, EIO}, Fault{io_fault_after, ENOSPC},
          Fault{io_fault_after, EDQUOT, true}, Fault{io_fault_once, EINTR}})
      sweep(folder.path() + "/c", fault, rank);
}

// Not errors: the call is to be made again for the rest.
TEST(CheckpointError, ShortWritesAreContinued) {
  const test::SharedFolder folder;
  const std::string directory = folder.path() + "/c";
  io_faults_arm(directory.c_str(), io_fault_short, 1, 0);
  write_fake(directory, 1);
  EXPECT_GT(world().sum(io_faults_disarm()), 0);
  EXPECT_EQ(CheckpointReader(directory).info().step, 1);
}

}  // namespace
}  // namespace trireme::io
