// A process that dies at any system call leaves the old or the new checkpoint, whole.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "io/checkpoint_find.hpp"
#include "io/checkpoint_views.hpp"
#include "io/checkpoint_writer.hpp"
#include "support/checkpoint_tensors.hpp"
#include "support/io_faults.h"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;
using test::fake_info;
using test::Memory;
using test::world;

void write_fake(const std::string& directory, std::int64_t step, int keep,
                bool background = false) {
  Memory memory;
  Retention retention;
  retention.keep = keep;
  CheckpointWriter writer(world(), directory, retention);
  writer.begin(fake_info(step), test::fake_boxes(memory, 1, 1), background);
  writer.finish();
  writer.finish_views();
}

// What a reader gets of each tensor, in numbers.
std::vector<std::string> digests_of(const CheckpointReader& reader) {
  std::vector<std::string> all;
  for (const TensorEntry& tensor : reader.tensors())
    all.push_back(reader.digest(tensor.path));
  return all;
}

// Writes step 2 in a child process that is killed at call `at`. True: it came to its end
// before.
bool write_and_die(const std::string& directory, int keep, bool background, int at) {
  const pid_t child = ::fork();
  if (child == 0) {
    io_faults_arm(directory.c_str(), io_fault_kill, at, 0);
    write_fake(directory, 2, keep, background);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL
                                  : WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

void sweep(int keep, bool background) {
  const test::SharedFolder folder;
  const std::string directory = folder.path() + "/c";
  write_fake(directory, 2, 0);
  const auto right = digests_of(CheckpointReader(directory));
  bool seen_old = false, seen_new = false, seen_without_views = false, finished = false;
  int calls = 0;
  for (int at = 1; !finished; ++at, ++calls) {
    ASSERT_LT(at, 1000);
    fs::remove_all(directory);
    write_fake(directory, 1, 0);
    finished = write_and_die(directory, keep, background, at);
    std::string found;
    ASSERT_NO_THROW(found = find_checkpoint(directory)) << "killed at call " << at;
    const CheckpointReader reader(found);  // verifies every file
    EXPECT_TRUE(reader.info().step == 1 || reader.info().step == 2);
    (reader.info().step == 1 ? seen_old : seen_new) = true;
    EXPECT_EQ(digests_of(reader), right) << "killed at call " << at;
    seen_without_views |=
        reader.info().step == 2 && !fs::exists(found + "/" + whole_name);
    if (at % 4 != 0 && !finished) continue;
    // The run goes on from what is there, and clears up.
    write_fake(directory, 2, keep);
    EXPECT_EQ(CheckpointReader(directory).info().step, 2);
    const std::string step = directory + "/step-00000002";
    EXPECT_EQ(why_views_differ(Directory(step)), "");
    for (const auto& entry : fs::directory_iterator(directory))
      EXPECT_NE(entry.path().filename().string().front(), '.') << entry.path();
  }
  EXPECT_TRUE(seen_old && seen_new && seen_without_views);
  std::printf("killed at each of %d calls\n", calls - 1);
}

TEST(CheckpointKill, AnyCallKeepingAll) { sweep(0, false); }
TEST(CheckpointKill, AnyCallKeepingOne) { sweep(1, false); }
TEST(CheckpointKill, AnyCallInTheBackground) { sweep(1, true); }

}  // namespace
}  // namespace trireme::io
