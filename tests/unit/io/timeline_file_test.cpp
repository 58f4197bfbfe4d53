// TimelineFile: a JSON document of events, as the Trace Event Format has them.
// SPDX-License-Identifier: Apache-2.0
#include "io/timeline_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.hpp"
#include "io/files.hpp"
#include "io/json.hpp"

namespace trireme::io {
namespace {

class TimelineFileTest : public testing::Test {
 protected:
  TimelineFileTest() {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TimelineFileTest() override { std::filesystem::remove_all(path_); }

  TimelineFile file() {
    return {
        Directory(path_),
        "trace.json",
        {.rank = 3, .ranks = 4, .host = "a \"b\"\n", .zero_ns = 1000, .zero = "noon"}};
  }
  nlohmann::json read() {
    return nlohmann::json::parse(read_text(path_ + "/trace.json", 1 << 20));
  }

  std::string path_ = testing::TempDir() + "timeline_file";
};

Timeline::Event range(const char* name, std::int64_t begin, std::int64_t end) {
  return {.name = name, .begin_ns = begin, .end_ns = end};
}

TEST_F(TimelineFileTest, RangesAndCollectives) {
  TimelineFile trace = file();
  Timeline::Event forward = range("forward", 2'234'567, 5'000'000);
  forward.note({.key = "microbatch", .number = 2});
  forward.note({.key = "what", .word = "\"quoted\""});
  forward.thread = 1;
  trace.write(forward);
  Timeline::Event sum = range("all_reduce", 1000, 1001);
  sum.id = 41;
  sum.set_group("data");
  sum.note({.key = "bytes", .number = 64});
  trace.write(sum);
  EXPECT_FALSE(std::filesystem::exists(path_ + "/trace.json"));
  trace.close(5);

  const nlohmann::json whole = read();
  const nlohmann::json& events = whole.at("traceEvents");
  ASSERT_EQ(events.size(), 3u + 4);
  EXPECT_EQ(events[0], nlohmann::json::parse(R"({
      "name": "forward", "cat": "range", "ph": "X", "ts": 2233.567, "dur": 2765.433,
      "pid": 3, "tid": 1, "args": {"microbatch": 2, "what": "\"quoted\""}})"));
  EXPECT_EQ(events[1], nlohmann::json::parse(R"({
      "name": "all_reduce data", "cat": "collective", "ph": "b", "id2": {"local": "41"},
      "ts": 0.0, "pid": 3, "tid": 0, "args": {"group": "data", "bytes": 64}})"));
  EXPECT_EQ(events[2], nlohmann::json::parse(R"({
      "name": "all_reduce data", "cat": "collective", "ph": "e", "id2": {"local": "41"},
      "ts": 0.001, "pid": 3, "tid": 0})"));
  EXPECT_EQ(events[3].at("name"), "process_name");
  EXPECT_EQ(events[3].at("args").at("name"), "rank 3 of 4, a \"b\"\n");
  EXPECT_EQ(events[4].at("args").at("sort_index"), 3);
  EXPECT_EQ(events[5].at("args").at("name"), "training");
  EXPECT_EQ(events[6].at("args").at("name"), "thread 1");
  EXPECT_EQ(events[6].at("ph"), "M");
  EXPECT_EQ(whole.at("otherData").at("dropped_events"), 5);
  EXPECT_EQ(whole.at("otherData").at("zero"), "noon");
}

TEST_F(TimelineFileTest, WithoutEvents) {
  file().close(0);
  EXPECT_EQ(read().at("traceEvents").size(), 3u);
}

// More than is held back at a time.
TEST_F(TimelineFileTest, ManyEvents) {
  TimelineFile trace = file();
  for (int i = 0; i < 3000; ++i) trace.write(range("many", 1000 + i, 2000 + i));
  trace.close(0);
  const nlohmann::json events = read().at("traceEvents");
  ASSERT_EQ(events.size(), 3003u);
  for (int i = 0; i < 3000; ++i)
    ASSERT_EQ(events[static_cast<std::size_t>(i)].at("ts").get<double>(), i / 1000.0);
}

TEST_F(TimelineFileTest, ReplacesAFileAndNoLink) {
  std::ofstream(path_ + "/trace.json") << "old";
  file().close(0);
  EXPECT_EQ(read().at("otherData").at("rank"), 3);
  std::filesystem::remove(path_ + "/trace.json");
  std::filesystem::create_symlink("elsewhere", path_ + "/trace.json");
  EXPECT_THROW(file(), Error);
}

TEST_F(TimelineFileTest, WhatIsNotClosedLeavesNothing) {
  file().write(range("lost", 2000, 3000));
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

}  // namespace
}  // namespace trireme::io
