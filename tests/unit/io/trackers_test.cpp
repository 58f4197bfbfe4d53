// Trackers: the log of W&B, MLflow's files, and a tracker that fails.
// SPDX-License-Identifier: Apache-2.0
#include "io/trackers.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "io/files.hpp"
#include "io/mlflow_folder.hpp"
#include "io/wandb_file.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

Record step_record(std::int64_t step, double loss) {
  Record within;
  within.set("bytes", std::int64_t{7});
  return metrics_line(
      "step", Record().set("step", step).set("loss", loss).set("communication", within));
}

class Folder : public testing::Test {
 protected:
  Folder() {
    std::string name = fs::temp_directory_path() / "trireme-trackers-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    run_.name = "a: \"name\"";
    run_.directory = run_.store = folder_;
    run_.deck = "[optimizer]\nlearning_rate = 0.5\nname = \"adamw\"\n";
    run_.settings = deck_settings(run_.deck);
  }
  ~Folder() override { fs::remove_all(folder_); }
  static std::string text(const std::string& path) { return read_text(path, 1 << 20); }
  // The only path below the folder that ends so.
  std::string find(const std::string& end) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      if (entry.path().string().ends_with(end)) found.push_back(entry.path());
    EXPECT_EQ(found.size(), 1u) << end;
    return found.empty() ? "" : found.front();
  }
  std::string folder_;
  TrackedRun run_;
};

TEST(WandbLog, ChecksumIsThePackages) {
  // zlib: crc32(b"\x01" + b"123456789")
  EXPECT_EQ(fragment_checksum(1, "123456789"), 0x21b52ec0u);
}

// Records of all lengths around a block's end come back whole, and no fragment crosses
// it.
TEST(WandbLog, RecordsAreCutAtBlocks) {
  WandbLog log;
  std::string file = log.head();
  EXPECT_EQ(file.size(), 7u);
  std::vector<std::string> records;
  for (const std::size_t length : {0u, 5u, 32730u, 1u, 100000u, 32761u, 3u}) {
    records.emplace_back(length, static_cast<char>('a' + records.size()));
    file += log.frame(records.back());
  }
  std::vector<std::string> back;
  for (std::size_t at = 7; at < file.size();) {
    const std::size_t room = WandbLog::block_bytes - at % WandbLog::block_bytes;
    if (room < 7) {
      EXPECT_EQ(file.substr(at, room), std::string(room, '\0'));
      at += room;
      continue;
    }
    std::uint32_t checksum = 0;
    std::uint16_t length = 0;
    std::memcpy(&checksum, file.data() + at, 4);
    std::memcpy(&length, file.data() + at + 4, 2);
    const auto kind = static_cast<unsigned char>(file[at + 6]);
    ASSERT_LE(7u + length, room);
    const std::string data = file.substr(at + 7, length);
    EXPECT_EQ(checksum, fragment_checksum(kind, data));
    if (kind <= 2)
      back.push_back(data);
    else
      back.back() += data;
    at += 7u + length;
  }
  EXPECT_EQ(back, records);
}

TEST_F(Folder, WandbHoldsEachRecordAtOnce) {
  WandbFile file(run_);
  EXPECT_NE(file.path().find("/wandb/offline-run-"), std::string::npos);
  const auto before = fs::file_size(file.path());
  file.write(step_record(1, 2.5));
  const auto after = fs::file_size(file.path());
  EXPECT_GT(after, before);
  EXPECT_NE(text(file.path()).find("train/loss"), std::string::npos);
  EXPECT_NE(text(file.path()).find("optimizer.learning_rate"), std::string::npos);
  file.finish(RunEnd::done);
  EXPECT_GT(fs::file_size(file.path()), after);
  // Another start of this second has a folder of its own, and the run's id.
  const WandbFile again(run_);
  EXPECT_NE(again.path(), file.path());
  EXPECT_EQ(fs::path(again.path()).filename(), fs::path(file.path()).filename());
}

TEST_F(Folder, MlflowGoesOnWithTheRun) {
  std::string meta;
  {
    MlflowFolder first(run_);
    meta = first.path() + "/meta.yaml";
    first.write(step_record(1, 2.5));
    first.write(step_record(2, 2.25));
    first.write(step_record(3, 2.0));
    first.finish(RunEnd::stopped);
    EXPECT_EQ(text(find("params/optimizer.learning_rate")), "0.5");
    EXPECT_NE(text(first.path() + "/meta.yaml").find("status: 2"), std::string::npos);
    EXPECT_NE(text(first.path() + "/meta.yaml").find("run_name: \"a: \\\"name\\\"\""),
              std::string::npos);
  }
  // As if it had begun long ago.
  std::string said = text(meta);
  const auto began = said.find("start_time: ");
  said.replace(began, said.find('\n', began) - began, "start_time: 1234567890123");
  std::ofstream(meta) << said;
  run_.resumed = 2;
  run_.name = "to \xf0\x9f\x9a\x80 and \xc3\xa9";
  MlflowFolder second(run_);
  EXPECT_NE(text(meta).find("start_time: 1234567890123\n"), std::string::npos);
  EXPECT_NE(text(meta).find("run_name: \"to \\U0001f680 and \\u00e9\"\n"),
            std::string::npos);
  second.write(step_record(3, 1.5));
  second.finish(RunEnd::done);
  const std::string points = text(find("metrics/train/loss"));
  std::vector<std::string> values;
  for (std::size_t at = 0; at < points.size(); at = points.find('\n', at) + 1) {
    const auto begin = points.find(' ', at) + 1;
    values.push_back(points.substr(begin, points.find('\n', at) - begin));
  }
  EXPECT_EQ(values, (std::vector<std::string>{"2.5 1", "2.25 2", "1.5 3"}));
  EXPECT_EQ(text(find("communication/bytes")).substr(13, 4), " 7 1");
}

TEST_F(Folder, MlflowBeginsAnewInARunOfItsOwn) {
  const std::string first = MlflowFolder(run_).path();
  EXPECT_NE(MlflowFolder(run_).path(), first);
  run_.resumed = 1;
  EXPECT_NE(MlflowFolder(run_).path(), first) << "it goes on with the last";
}

class Failing : public Tracker {
 public:
  explicit Failing(int& calls) : calls_(calls) {}
  void write(const Record&) override {
    ++calls_;
    fail(Status::io, "no space left");
  }
  void write_text(std::int64_t, const std::string&, const std::string&) override {
    ++calls_;
  }
  void finish(RunEnd) override { ++calls_; }

 private:
  int& calls_;
};

TEST(Trackers, OneThatFailsIsLeftOutWithAWarning) {
  int calls = 0;
  Trackers trackers;
  trackers.add("wandb", std::make_unique<Failing>(calls));
  testing::internal::CaptureStdout();
  trackers.write(step_record(1, 1));
  trackers.write(step_record(2, 1));
  trackers.write_text(2, "samples/1", "x");
  trackers.finish(RunEnd::done);
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(calls, 1);
  EXPECT_NE(out.find("warning: wandb: no space left"), std::string::npos) << out;
  EXPECT_EQ(out.find("warning", out.find("warning") + 1), std::string::npos);
}

TEST(Trackers, OneThatCannotBeginIsLeftOut) {
  TrackedRun run;
  run.directory = run.store = "/proc/trireme";
  Trackers trackers;
  testing::internal::CaptureStdout();
  trackers.open({"tensorboard", "wandb", "mlflow"}, run);
  trackers.write(step_record(1, 1));
  const std::string out = testing::internal::GetCapturedStdout();
  for (const char* name : tracker_names)
    EXPECT_NE(out.find(std::string("warning: ") + name), std::string::npos) << out;
}

}  // namespace
}  // namespace trireme::io
