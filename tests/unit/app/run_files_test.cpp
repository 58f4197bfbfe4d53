// Files of a run as others read them: status, metrics in any state, the state of a run.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "app/run_state.hpp"
#include "base/error.hpp"
#include "io/metrics_history.hpp"
#include "io/run_directory.hpp"
#include "io/run_status.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using app::RunPhase;

class RunFiles : public testing::Test {
 protected:
  RunFiles() {
    std::string name = fs::temp_directory_path() / "trireme-run-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~RunFiles() override { fs::remove_all(folder_); }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  std::string folder_;
};

TEST_F(RunFiles, StatusReadsBack) {
  EXPECT_FALSE(io::read_run_status(folder_));
  io::RunStatus status;
  status.running = false;
  status.status = Status::diverged;
  status.message = "a \"quoted\"\nline";
  status.ended = "2026-01-31T23:59:59Z";
  status.steps = 30;
  status.starts = {{0, 4, {"n1", 12, "77_3", "2026-01-31T22:00:00Z"}}, {10, 8, {}}};
  status.starts[1].name = "18-ab";
  io::write_run_status(folder_, status);
  const auto back = io::read_run_status(folder_);
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->running);
  EXPECT_EQ(back->status, Status::diverged);
  EXPECT_EQ(back->message, status.message);
  EXPECT_EQ(back->ended, status.ended);
  EXPECT_EQ(back->steps, 30);
  ASSERT_EQ(back->starts.size(), 2u);
  EXPECT_EQ(back->starts[0].process.describe(), status.starts[0].process.describe());
  EXPECT_EQ(back->starts[1].step, 10);
  EXPECT_EQ(back->starts[1].ranks, 8);
  EXPECT_EQ(back->starts[0].name, "");
  EXPECT_EQ(back->starts[1].name, "18-ab");
}

TEST_F(RunFiles, MetricsAreReadInAnyState) {
  const std::string path = folder_ + "/metrics.jsonl";
  EXPECT_TRUE(io::read_metrics(path).series.empty());
  put("metrics.jsonl", "");
  EXPECT_EQ(io::read_metrics(path).last_step(), 0);
  put("metrics.jsonl",
      "{\"step\": 2, \"loss\": 1.5, \"text\": \"x\", \"more\": {\"a\": 1}}\n"
      "{\"step\": 1, \"loss\": 2.5}\n"
      "no json\n[1]\n{\"loss\": 1}\n{\"step\": 1.5}\n{\"step\": 1e300}\n\xff\xfe\n\n"
      "{\"step\": 2, \"loss\": 1.25}\n"
      "{\"step\": 3, \"loss\": null}\n"
      "{\"step\": 4, \"lo");
  const auto history = io::read_metrics(path);
  EXPECT_EQ(history.damaged, 7);
  EXPECT_EQ(history.series_of("loss"), (io::Series{{1, 2.5}, {2, 1.25}}));
  EXPECT_TRUE(history.series_of("text").empty());
}

TEST_F(RunFiles, KeysWithinAreReadWhereTheyAreWanted) {
  put("metrics.jsonl",
      "{\"step\": 1, \"loss\": 2, \"memory\": {\"weights\": 3, \"data\": 1}, "
      "\"idle_share\": [0.5, 0.25], \"expert_load\": {\"1\": [4, 5]}}\n"
      "{\"step\": 2, \"memory\": {\"weights\": 4}, \"memory.weights\": 4, "
      "\"idle_share\": [0.5, \"x\"], \"expert_load\": {\"1\": [6, 7]}}\n");
  const auto history = io::read_metrics(
      folder_ + "/metrics.jsonl",
      [](const std::string& key) { return key != "loss" && key != "memory.data"; });
  EXPECT_EQ(history.damaged, 0);
  EXPECT_EQ(history.series.size(), 3u);
  EXPECT_EQ(history.series_of("memory.weights"), (io::Series{{1, 3}, {2, 4}}));
  EXPECT_EQ(history.series_of("idle_share.1"), (io::Series{{1, 0.25}}));
  EXPECT_EQ(history.lists.at("expert_load.1"), (std::vector<double>{6, 7}));
}

// Members are visited by recursion, which a line of this depth would carry too far.
TEST_F(RunFiles, ALineOfAMillionObjectsIsDamaged) {
  const std::size_t depth = 1'000'000;
  std::string line = "{\"step\": 1, \"loss\": 2, \"a\": ";
  for (std::size_t i = 0; i < depth; ++i) line += "{\"a\":";
  put("metrics.jsonl",
      line + "1" + std::string(depth + 1, '}') + "\n{\"step\": 2, \"loss\": 1}\n");
  const auto history = io::read_metrics(folder_ + "/metrics.jsonl",
                                        [](const std::string&) { return true; });
  EXPECT_EQ(history.damaged, 1);
  EXPECT_EQ(history.series_of("loss"), (io::Series{{2, 1}}));
}

TEST_F(RunFiles, StateComesFromTheFiles) {
  const auto phase = [&] { return app::run_state(folder_).phase; };
  EXPECT_EQ(app::run_state(folder_ + "/none").phase, RunPhase::waiting);
  EXPECT_EQ(phase(), RunPhase::waiting);
  std::optional<io::RunLock> lock;
  lock.emplace(folder_);
  EXPECT_EQ(phase(), RunPhase::running) << "from the moment it holds the lock";
  io::RunStatus status;
  status.steps = 5;
  io::write_run_status(folder_, status);
  EXPECT_EQ(phase(), RunPhase::running);
  lock.reset();
  EXPECT_EQ(phase(), RunPhase::failed)
      << "killed: it says that it runs, but holds no lock";
  status.running = false;
  io::write_run_status(folder_, status);
  EXPECT_EQ(phase(), RunPhase::done);
  status.status = Status::run_again;
  io::write_run_status(folder_, status);
  EXPECT_EQ(phase(), RunPhase::stopped);
  status.status = Status::diverged;
  status.message = "the loss\nis gone";
  io::write_run_status(folder_, status);
  put("metrics.jsonl",
      "{\"step\": 3, \"loss\": 1.5}\n{\"step\": 2, \"validation_loss\": 2}\n");
  const auto state = app::run_state(folder_);
  EXPECT_EQ(state.phase, RunPhase::failed);
  EXPECT_EQ(state.note, "status 80: the loss");
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.steps, 5);
  EXPECT_EQ(state.loss, 1.5);
  EXPECT_EQ(state.validation_loss, 2);
  put("status.toml", "state = [");
  EXPECT_EQ(phase(), RunPhase::failed) << "a damaged file is no crash";
}

// What bears a file's name and is none ends a reader at once.
TEST_F(RunFiles, FifosAndDevicesAreNotRead) {
  for (const char* const name : {"status.toml", "metrics.jsonl", "lock"}) {
    const std::string path = folder_ + "/" + name;
    for (const bool fifo : {true, false}) {
      if (fifo)
        ASSERT_EQ(::mkfifo(path.c_str(), 0666), 0);
      else
        fs::create_symlink("/dev/zero", path);
      if (name == std::string("status.toml"))
        EXPECT_EQ(app::run_state(folder_).phase, RunPhase::failed);
      else
        EXPECT_THROW(app::run_state(folder_), Error) << name;
      fs::remove(path);
    }
  }
}

TEST_F(RunFiles, ARunDirectoryIsCheckedBeforeAnythingIsTouched) {
  fs::create_directories(folder_ + "/flight/before");
  fs::create_directories(folder_ + "/checkpoints");
  fs::create_directories(folder_ + "/gradients");
  put("flight/notes", "a file of somebody's");
  fs::create_symlink("step-00000001", folder_ + "/checkpoints/latest");
  fs::create_symlink("step-00000002", folder_ + "/checkpoints/.latest.tmp");
  put("stop", "");
  EXPECT_NO_THROW(io::check_run_directory(folder_));
  for (const char* const name :
       {"lock", "status.toml", "deck.toml", "metrics.jsonl", "stop", "save",
        "tensorboard", "flight/position-00000-x", "flight/hang-x", "flight/report.txt",
        "flight/recorder-00001.jsonl", "flight/before/report.txt",
        "gradients/step-00000001.h5", "checkpoints/.step-00000001.tmp",
        "checkpoints/.trash-step-00000001"}) {
    const std::string path = folder_ + "/" + name;
    fs::remove(path);
    for (const char* const target : {"nowhere", "/dev/zero", "/tmp"}) {
      fs::create_symlink(target, path);
      try {
        io::check_run_directory(folder_);
        ADD_FAILURE() << name;
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::cannot_create);
        EXPECT_EQ(std::string(error.what()).find(path + ": is a symbolic link"), 0u)
            << error.what();
      }
      fs::remove(path);
    }
  }
}

// Else the run would find it when it comes to that step, and end without a checkpoint.
TEST_F(RunFiles, WhatBearsTheNameOfACheckpointIsADirectory) {
  fs::create_directories(folder_ + "/checkpoints/step-00000001");
  fs::create_directories(folder_ + "/kept");
  fs::create_directory_symlink(folder_ + "/kept", folder_ + "/checkpoints/step-00000002");
  put("checkpoints/step-3", "a file of somebody's");
  EXPECT_NO_THROW(io::check_run_directory(folder_));
  const std::string path = folder_ + "/checkpoints/step-00000004";
  const auto refusal = [&]() -> std::string {
    try {
      io::check_run_directory(folder_);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::cannot_create);
      return error.what();
    }
    return "";
  };
  put("checkpoints/step-00000004", "");
  EXPECT_EQ(refusal().find(path + ": is a file"), 0u) << refusal();
  fs::remove(path);
  for (const std::string target : {"nowhere", "step-3"}) {
    fs::create_symlink(target, path);
    EXPECT_EQ(refusal().find(path + ": is a link that leads to no directory"), 0u)
        << refusal();
    fs::remove(path);
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(RunFiles, ARequestIsARegularFile) {
  EXPECT_FALSE(io::is_asked_by_file(folder_, "stop"));
  put("other", "x");
  fs::create_symlink("other", folder_ + "/stop");
  EXPECT_FALSE(io::is_asked_by_file(folder_, "stop"));
  io::remove_request(folder_, "stop");
  EXPECT_TRUE(fs::is_symlink(folder_ + "/stop"));
  fs::remove(folder_ + "/stop");
  put("stop", "");
  EXPECT_TRUE(io::is_asked_by_file(folder_, "stop"));
  io::remove_request(folder_, "stop");
  EXPECT_FALSE(fs::exists(folder_ + "/stop"));
}

}  // namespace
}  // namespace trireme
