// metrics.jsonl: records at full precision, and what a resumed run keeps.
// SPDX-License-Identifier: Apache-2.0
#include "io/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

class MetricsTest : public testing::Test {
 protected:
  MetricsTest() {
    std::string name = fs::temp_directory_path() / "trireme-metrics-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    file_ = folder_ + "/metrics.jsonl";
  }
  ~MetricsTest() override { fs::remove_all(folder_); }
  std::string text() const { return read_text(file_, 1 << 20); }
  void put(const std::string& text) const {
    std::ofstream(file_, std::ios::binary) << text;
  }

  std::string folder_, file_;
};

TEST(Record, WritesOrderedJson) {
  Record record;
  record.set("step", std::int64_t{3}).set("loss", 0.1).set("none", NAN);
  record.set("text", std::string("a\"b\n\x01\xff"));
  EXPECT_EQ(record.json(),
            "{\"step\": 3, \"loss\": 0.1, \"none\": null, "
            "\"text\": \"a\\\"b\\n\\u0001\xef\xbf\xbd\"}");
  EXPECT_EQ(Record{}.json(), "{}");
  // The shortest text that reads back as the same double.
  EXPECT_EQ(Record{}.set("x", 1.0 / 3).json(), "{\"x\": 0.3333333333333333}");
}

TEST(Record, Nests) {
  const Record inner = Record{}.set("calls", std::int64_t{2}).set("seconds", 0.5);
  Record record;
  record.set("list", std::vector<double>{0.25, NAN, 2.0}).set("none", Record{});
  record.set("group", Record{}.set("all_reduce", inner));
  EXPECT_EQ(record.json(),
            "{\"list\": [0.25, null, 2], \"none\": {}, "
            "\"group\": {\"all_reduce\": {\"calls\": 2, \"seconds\": 0.5}}}");
  EXPECT_EQ(Record{}.set("a", 1.0).append(inner).json(),
            "{\"a\": 1, \"calls\": 2, \"seconds\": 0.5}");
  EXPECT_FALSE(record.empty());
  EXPECT_TRUE(Record{}.empty());
  EXPECT_EQ(Record{}.set("x", std::vector<double>{}).json(), "{\"x\": []}");
}

TEST_F(MetricsTest, LinesAreThereAtOnce) {
  MetricsFile file(file_, 0);
  for (std::int64_t step = 1; step <= 3; ++step) file.write(Record{}.set("step", step));
  EXPECT_EQ(text(), "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n");
}

TEST_F(MetricsTest, ResumingDropsLaterAndTornLines) {
  put("{\"step\": 1}\n{\"note\": 5}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 2, \"lo");
  {
    MetricsFile file(file_, 2);
    file.write(Record{}.set("step", std::int64_t{3}).set("loss", 1.5));
  }
  EXPECT_EQ(
      text(),
      "{\"step\": 1}\n{\"note\": 5}\n{\"step\": 2}\n{\"step\": 3, \"loss\": 1.5}\n");
  // A whole object without an end of line is torn too: the next line would follow it.
  put("{\"step\": 1}\n{\"step\": 2}");
  const MetricsFile file(file_, 2);
  EXPECT_EQ(text(), "{\"step\": 1}\n");
}

TEST_F(MetricsTest, AFreshRunKeepsTheOldFile) {
  for (int run = 0; run < 3; ++run)
    MetricsFile(file_, 0).write(Record{}.set("run", std::int64_t{run}));
  EXPECT_EQ(text(), "{\"run\": 2}\n");
  EXPECT_EQ(read_text(folder_ + "/metrics-1.jsonl", 100), "{\"run\": 0}\n");
  EXPECT_EQ(read_text(folder_ + "/metrics-2.jsonl", 100), "{\"run\": 1}\n");
}

TEST_F(MetricsTest, FailuresNameTheFile) {
  try {
    const MetricsFile file(folder_ + "/none/metrics.jsonl", 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::cannot_create);
    EXPECT_NE(std::string(error.what()).find("none/metrics.jsonl"), std::string::npos);
  }
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  fs::create_symlink("/dev/full", file_);
  MetricsFile full(file_, 1);
  try {
    full.write(Record{}.set("x", 1.0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_EQ(std::string(error.what()),
              file_ + ": write failed: No space left on device");
  }
}

}  // namespace
}  // namespace trireme::io
