// The lock of a run's directory: held against other processes, gone with its holder.
// SPDX-License-Identifier: Apache-2.0
#include "io/run_lock.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "support/io_faults.h"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

class RunLockTest : public testing::Test {
 protected:
  RunLockTest() {
    std::string name = fs::temp_directory_path() / "trireme-lock-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~RunLockTest() override { fs::remove_all(folder_); }

  // A process that takes the lock, says so, and waits to be killed.
  pid_t start_holder() const {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      std::optional<RunLock> lock;
      lock.emplace(folder_);
      (void)!::write(ready[1], "x", 1);
      while (true) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return child;
  }

  static void kill_holder(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  std::string folder_;
};

TEST_F(RunLockTest, IsHeldForItsLife) {
  EXPECT_FALSE(RunLock::holder(folder_));
  {
    const RunLock lock(folder_);
    const auto who = RunLock::holder(folder_);
    ASSERT_TRUE(who);
    EXPECT_EQ(who->pid, ::getpid());
    EXPECT_EQ(who->host, this_process().host);
    EXPECT_EQ(who->since.size(), std::string("2026-01-31T23:59:59Z").size());
  }
  EXPECT_FALSE(RunLock::holder(folder_));
  EXPECT_FALSE(fs::exists(folder_ + "/lock"));
}

TEST_F(RunLockTest, ASecondHolderIsRefusedAndTheFirstIsNamed) {
  ::setenv("SLURM_JOB_ID", "4711", 1);
  const RunLock lock(folder_);
  ::unsetenv("SLURM_JOB_ID");
  try {
    const RunLock second(folder_);
    FAIL() << "the lock was had twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::cannot_create);
    const std::string text = error.what();
    EXPECT_NE(text.find(folder_ + "/lock is held by process "), std::string::npos)
        << text;
    EXPECT_NE(text.find(std::to_string(::getpid())), std::string::npos) << text;
    EXPECT_NE(text.find("job 4711"), std::string::npos) << text;
  }
  EXPECT_TRUE(RunLock::holder(folder_)) << "the refused one has released it";
}

TEST_F(RunLockTest, GoesWithAKilledHolder) {
  const pid_t child = start_holder();
  const auto who = RunLock::holder(folder_);
  EXPECT_THROW(RunLock second(folder_), Error);
  kill_holder(child);
  ASSERT_TRUE(who);
  EXPECT_EQ(who->pid, child);
  EXPECT_TRUE(fs::exists(folder_ + "/lock"));
  EXPECT_FALSE(RunLock::holder(folder_)) << "a dead process holds nothing";
  const RunLock mine(folder_);
  EXPECT_EQ(RunLock::holder(folder_)->pid, ::getpid());
}

// As a file server does for the lease of a client that is gone.
TEST_F(RunLockTest, AnEarlierStartOfTheSameJobIsWaitedFor) {
  using std::chrono::milliseconds;
  const LockPatience patient{milliseconds(20), milliseconds(60'000)};
  ::setenv("SLURM_JOB_ID", "4711", 1);
  const pid_t child = start_holder();
  std::thread end([child] {
    std::this_thread::sleep_for(milliseconds(300));
    kill_holder(child);
  });
  std::optional<RunLock> mine;
  EXPECT_NO_THROW(mine.emplace(folder_, "lock", patient));
  end.join();
  ASSERT_TRUE(mine);
  EXPECT_EQ(RunLock::holder(folder_)->pid, ::getpid());
  mine.reset();
  // Not longer than that, nor for another job, nor where one of the two has none.
  const pid_t stays = start_holder();
  const LockPatience short_one{milliseconds(20), milliseconds(200)};
  EXPECT_THROW(RunLock(folder_, "lock", short_one), Error);
  testing::internal::CaptureStdout();
  ::setenv("SLURM_JOB_ID", "4712", 1);
  EXPECT_THROW(RunLock(folder_, "lock", patient), Error);
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_THROW(RunLock(folder_, "lock", patient), Error);
  kill_holder(stays);
  const pid_t nameless = start_holder();
  EXPECT_THROW(RunLock(folder_, "lock", patient), Error);
  kill_holder(nameless);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << "nothing was waited for";
}

// What is no run has a lock of another name, and words of its own.
TEST_F(RunLockTest, LocksOfTwoNamesAreTwo) {
  const RunLock run(folder_);
  std::optional<RunLock> other;
  other.emplace(folder_, ".to.lock");
  EXPECT_TRUE(fs::exists(folder_ + "/.to.lock"));
  try {
    const RunLock second(folder_, ".to.lock", {std::chrono::milliseconds(20)});
    FAIL() << "the lock was had twice";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find(folder_ + "/.to.lock is held by process "), 0u) << text;
    EXPECT_EQ(text.find("run.directory"), std::string::npos) << text;
  }
  other.reset();
  EXPECT_FALSE(fs::exists(folder_ + "/.to.lock"));
  EXPECT_TRUE(RunLock::holder(folder_));
}

// A full disk does not leave a lock of nobody.
TEST_F(RunLockTest, ALockThatCannotBeWrittenGoes) {
  io_faults_arm((folder_ + "/lock").c_str(), io_fault_after, 2, ENOSPC);
  EXPECT_THROW(RunLock lock(folder_), Error);
  EXPECT_STREQ(io_faults_struck(), "ftruncate");
  io_faults_disarm();
  EXPECT_FALSE(fs::exists(folder_ + "/lock"));
}

TEST_F(RunLockTest, ADamagedFileIsNoObstacle) {
  std::ofstream(folder_ + "/lock") << "host = [\n\x01";
  EXPECT_FALSE(RunLock::holder(folder_));
  const RunLock lock(folder_);
  EXPECT_EQ(RunLock::holder(folder_)->pid, ::getpid());
}

TEST_F(RunLockTest, NeedsItsDirectory) {
  EXPECT_FALSE(RunLock::holder(folder_ + "/none"));
  try {
    const RunLock lock(folder_ + "/none");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::cannot_create);
  }
}

TEST_F(RunLockTest, OnlyARegularFileIsALock) {
  const std::string lock = folder_ + "/lock", other = folder_ + "/other";
  std::ofstream(other) << "precious";
  const auto expect_refused = [&](const std::string& words) {
    try {
      const RunLock taken(folder_);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::cannot_create);
      EXPECT_EQ(std::string(error.what()).find(lock + ": " + words), 0u) << error.what();
    }
    EXPECT_THROW(RunLock::holder(folder_), Error)
        << "no answer is given, and none waited for";
    fs::remove_all(lock);
  };
  fs::create_symlink("other", lock);
  expect_refused("is a symbolic link");
  fs::create_symlink("none", lock);
  expect_refused("is a symbolic link");
  fs::create_symlink("/dev/zero", lock);
  expect_refused("is a symbolic link");
  ::mkfifo(lock.c_str(), 0666);
  expect_refused("is a FIFO");
  fs::create_directory(lock);
  expect_refused("is a directory");
  std::string text;
  std::getline(std::ifstream(other), text);
  EXPECT_EQ(text, "precious");
  EXPECT_FALSE(fs::exists(folder_ + "/none"));
}

TEST_F(RunLockTest, AHardLinkIsNotWritten) {
  std::ofstream(folder_ + "/other") << "precious";
  fs::create_hard_link(folder_ + "/other", folder_ + "/lock");
  const RunLock lock(folder_);
  EXPECT_EQ(RunLock::holder(folder_)->pid, ::getpid());
  std::ifstream other(folder_ + "/other");
  std::string text;
  std::getline(other, text);
  EXPECT_EQ(text, "precious");
}

// The calls that take the lock fail, are interrupted or take half, one after the other.
TEST_F(RunLockTest, InterruptedAndShortCallsAreMadeAgain) {
  int calls = 1;
  for (int at = 1; at <= calls; ++at) {
    for (const auto fault : {io_fault_once, io_fault_short}) {
      io_faults_arm(folder_.c_str(), fault, at, EINTR);
      {
        const RunLock lock(folder_);
        const auto who = RunLock::holder(folder_);
        ASSERT_TRUE(who);
        EXPECT_EQ(who->host, this_process().host);
        EXPECT_EQ(who->since.size(), this_process().since.size()) << "the last field";
      }
      calls = io_faults_disarm();
      EXPECT_FALSE(fs::exists(folder_ + "/lock"));
    }
  }
  EXPECT_GE(calls, 4) << "open, truncate, write, remove";
}

}  // namespace
}  // namespace trireme::io
