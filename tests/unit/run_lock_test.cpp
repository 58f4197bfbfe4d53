// The lock of a run's directory.
// SPDX-License-Identifier: Apache-2.0
#include "io/run_lock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "support/checkpoint_tensors.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

class RunLockTest : public testing::Test {
 protected:
  std::string file() const { return folder_.path() + "/lock"; }
  // What taking the lock says: "" if it is had.
  std::string refusal() const {
    try {
      const RunLock lock(folder_.path());
      lock.check();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::cannot_create);
      return error.what();
    }
  }
  // A lock file that somebody left.
  void leave(const std::string& host, const std::string& job, int seconds_ago) const {
    std::ofstream(file()) << R"({"host":")" << host
                          << R"(","process":77,"started":"1","job":")" << job << "\"}\n";
    const timespec then{::time(nullptr) - seconds_ago, 0};
    const timespec times[] = {then, then};
    ASSERT_EQ(::utimensat(AT_FDCWD, file().c_str(), times, 0), 0);
  }
  test::SharedFolder folder_;
};

TEST_F(RunLockTest, OneHolderAtATime) {
  std::optional<RunLock> lock(folder_.path());
  lock->check();
  const std::string said = refusal();
  EXPECT_EQ(said.find(file() + ": this run's directory is in use by process " +
                      std::to_string(::getpid()) + " on "),
            0U)
      << said;
  lock.reset();
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_EQ(refusal(), "");
}

// Killed while it holds the lock.
TEST_F(RunLockTest, AKilledHolderIsReplaced) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(folder_.path());
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_NE(refusal().find("process " + std::to_string(child)), std::string::npos);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(file()));
  testing::internal::CaptureStdout();
  EXPECT_EQ(refusal(), "");
  const std::string warning = testing::internal::GetCapturedStdout();
  EXPECT_NE(warning.find("left by process " + std::to_string(child)), std::string::npos);
  EXPECT_NE(warning.find("has ended; taken over"), std::string::npos) << warning;
}

TEST_F(RunLockTest, AnotherHostsLockStandsUntilItIsSilent) {
  ::unsetenv("SLURM_JOB_ID");
  leave("elsewhere", "12", 5);
  const std::string said = refusal();
  EXPECT_NE(said.find("process 77 on elsewhere (job 12)"), std::string::npos) << said;
  EXPECT_NE(said.find("remove this file"), std::string::npos) << said;
  ::setenv("SLURM_JOB_ID", "13", 1);
  EXPECT_NE(refusal(), "");
  ::setenv("SLURM_JOB_ID", "12", 1);  // requeued
  EXPECT_EQ(refusal(), "");
  ::unsetenv("SLURM_JOB_ID");
  leave("elsewhere", "12", 3600);
  EXPECT_EQ(refusal(), "");
}

TEST_F(RunLockTest, WhatIsNoLockIsReplaced) {
  std::ofstream(file()) << "a user's notes";
  EXPECT_EQ(refusal(), "");
}

TEST_F(RunLockTest, LosingItIsNoticed) {
  const RunLock lock(folder_.path());
  leave("elsewhere", "9", 0);
  try {
    lock.check();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_NE(std::string(error.what()).find("taken over by process 77 on elsewhere"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme::io
