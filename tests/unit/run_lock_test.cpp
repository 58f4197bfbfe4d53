// The lock of a run's directory: held against other processes, gone with its holder.
// SPDX-License-Identifier: Apache-2.0
#include "io/run_lock.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/error.hpp"

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

}  // namespace
}  // namespace trireme::io
