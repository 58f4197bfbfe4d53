// metrics.jsonl: records at full precision, and what a resumed run keeps.
// SPDX-License-Identifier: Apache-2.0
#include "io/metrics.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

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

std::string step_line(std::int64_t step, double loss) {
  return Record{}.set("step", step).set("loss", loss).json() + "\n";
}

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

// Fields of records within stand beside these under their whole names; lists do not.
TEST(Record, IsFlatForTables) {
  const Record inner =
      Record{}.set("calls", std::int64_t{2}).set("kind", std::string("a"));
  Record record;
  record.set("x", 1.0).set("group", Record{}.set("all_reduce", inner));
  record.set("more", Record{}.set("list", std::vector<double>{1.0}).set("n", NAN));
  EXPECT_EQ(record.flat().json(),
            "{\"x\": 1, \"group\": {\"all_reduce\": {\"calls\": 2, \"kind\": \"a\"}}, "
            "\"more\": {\"list\": [1], \"n\": null}, \"group.all_reduce.calls\": 2, "
            "\"group.all_reduce.kind\": \"a\", \"more.n\": null}");
  const auto numbers = Record{}.set("y", 0.5).append(record).flat().numbers();
  EXPECT_EQ(numbers, (std::vector<std::pair<std::string, double>>{
                         {"y", 0.5}, {"x", 1}, {"group.all_reduce.calls", 2}}));
  const std::string line = metrics_line("step", record).json();
  EXPECT_TRUE(line.starts_with("{\"kind\": \"step\", \"wall_time\": ")) << line;
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
    EXPECT_EQ(
        std::string(error.what()),
        folder_ + "/none: the directory cannot be opened: No such file or directory");
  }
  MetricsFile full(file_, 1);
  full.write(Record{}.set("x", 1.0));
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{fs::file_size(file_) + 5, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    full.write(Record{}.set("x", 1.0));
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(message,
            file_ +
                ": write failed: File too large; the limit is 14 bytes in a file "
                "(ulimit -f)");
  EXPECT_EQ(text(), "{\"x\": 1}\n") << "a torn line is left";
}

// What is in the way: made by `plant` under the file's name.
template <class Plant>
void expect_refused(const std::string& file, const std::string& words,
                    const Plant& plant) {
  for (const std::int64_t resumed : {0, 1}) {
    plant();
    try {
      const MetricsFile metrics(file, resumed);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::cannot_create);
      EXPECT_EQ(std::string(error.what()).find(file + ": " + words), 0u) << error.what();
    }
    fs::remove_all(file);
  }
}

TEST_F(MetricsTest, OnlyARegularFileIsWritten) {
  const std::string other = folder_ + "/other";
  std::ofstream(other) << "{\"step\": 9}\n";
  expect_refused(file_, "is a symbolic link",
                 [&] { fs::create_symlink("other", file_); });
  expect_refused(file_, "is a symbolic link", [&] { fs::create_symlink("none", file_); });
  expect_refused(file_, "is a FIFO", [&] { ::mkfifo(file_.c_str(), 0666); });
  expect_refused(file_, "is a directory", [&] { fs::create_directory(file_); });
  EXPECT_EQ(read_text(other, 100), "{\"step\": 9}\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(MetricsTest, ACopyOfHardLinksStays) {
  put("{\"step\": 1}\n");
  fs::create_hard_link(file_, folder_ + "/copy");
  MetricsFile(file_, 1).write(Record{}.set("step", std::int64_t{2}));
  EXPECT_EQ(text(), "{\"step\": 1}\n{\"step\": 2}\n");
  EXPECT_EQ(read_text(folder_ + "/copy", 100), "{\"step\": 1}\n");
}

TEST_F(MetricsTest, HugeLinesAreNotHeld) {
  put("{\"step\": 1, \"loss\": 1}\n");
  fs::resize_file(file_, 40 << 20);  // a line of zeros
  EXPECT_EQ(read_steps(file_, 9, 9).size(), 1u);
  MetricsFile(file_, 1);
  EXPECT_EQ(text(), "{\"step\": 1, \"loss\": 1}\n");
}

// A run's own file is read from its end, so that it may be longer than others.
TEST_F(MetricsTest, AFileOfManyGigabytesGoesOn) {
  put("");
  fs::resize_file(file_,
                  std::uintmax_t{5} << 30);  // a line of zeros, which takes no disk
  const auto begin = fs::file_size(file_);
  {
    std::ofstream more(file_, std::ios::app);
    more << "\n";
    for (int step = 1; step <= 6; ++step) more << step_line(step, 0.5 + step);
  }
  const auto read_before = bytes_read();
  const auto steps = read_steps(file_, 4, 2);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].step, 3);
  EXPECT_EQ(steps[1].loss, 4.5);
  MetricsFile(file_, 4).write(Record{}.set("step", std::int64_t{5}).set("loss", 9.0));
  EXPECT_LT(bytes_read() - read_before, 10 << 20);
  EXPECT_EQ(fs::file_size(file_),
            begin + 1 + 4 * step_line(1, 1.5).size() + step_line(5, 9).size());
  EXPECT_EQ(read_steps(file_, 9, 1).at(0).loss, 9.0);
}

// A checkpoint that is written beside later steps is told of behind them.
TEST_F(MetricsTest, ResumingKeepsLinesBehindLaterSteps) {
  const std::string one = "{\"step\": 1, \"loss\": 1}\n";
  const std::string two = "{\"step\": 2, \"loss\": null}\n";
  const std::string saved = "{\"step\": 2, \"checkpoint_seconds\": 1}\n";
  const std::string three = "{\"step\": 3, \"loss\": 1}\n";
  for (const bool shared : {false, true}) {
    put(one + two + three + saved + "{\"step\": 4, \"loss\": 1}\n");
    if (shared) fs::create_hard_link(file_, folder_ + "/copy");
    MetricsFile(file_, 2);
    EXPECT_EQ(text(), one + two + saved);
    MetricsFile(file_, 2);
    EXPECT_EQ(text(), one + two + saved);
  }
  EXPECT_EQ(read_text(folder_ + "/copy", 1000),
            one + two + three + saved + "{\"step\": 4, \"loss\": 1}\n");
}

// Lines that lie across the blocks in which the file is read.
TEST_F(MetricsTest, StepsAreReadFromTheEnd) {
  std::string all;
  for (int step = 1; step <= 5000; ++step)
    all += std::string(static_cast<std::size_t>(step % 997), ' ') + step_line(step, step);
  put(all);
  const auto steps = read_steps(file_, 4999, 1 << 20);
  ASSERT_EQ(steps.size(), 4999u);
  for (std::size_t i = 0; i < steps.size(); ++i)
    EXPECT_EQ(steps[i].step, static_cast<std::int64_t>(i) + 1);
  put(std::string(300000, 'x') + "\n{\"step\": 1, \"loss\": 2}");
  EXPECT_EQ(read_steps(file_, 9, 9).size(), 1u);
}

}  // namespace
}  // namespace trireme::io
