// The log: a message on standard error is there before its writer goes on to end the job.
// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/terminal.hpp"
#include "base/text.hpp"

namespace trireme {
namespace {

// A pipe in place of standard error.
class ErrorPipe {
 public:
  ErrorPipe() : before_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe(ends_.data()), 0);
    ::dup2(ends_[1], STDERR_FILENO);
    ::close(ends_[1]);
  }
  ~ErrorPipe() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(ends_[0]);
  }
  ErrorPipe(const ErrorPipe&) = delete;
  ErrorPipe& operator=(const ErrorPipe&) = delete;

  int unread() const {
    int bytes = -1;
    ::ioctl(ends_[0], FIONREAD, &bytes);
    return bytes;
  }
  void read_all() const { text(); }
  // What has been written so far.
  std::string text() const {
    std::string all;
    std::array<char, 4096> part{};
    while (unread() > 0) {
      const auto got = ::read(ends_[0], part.data(), part.size());
      EXPECT_GT(got, 0);
      if (got <= 0) break;
      all.append(part.data(), static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  int before_;
  std::array<int, 2> ends_{};
};

TEST(Log, ErrorsArriveBeforeTheWriterGoesOn) {
  const ErrorPipe pipe;
  log::error("trireme: error: a slow reader");
  EXPECT_GT(pipe.unread(), 0);
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    pipe.read_all();
  });
  log::let_errors_arrive();
  EXPECT_EQ(pipe.unread(), 0);
  reader.join();
}

TEST(Log, NobodyReadsErrors) {
  const ErrorPipe pipe;
  log::error("trireme: error: nobody reads this");
  log::let_errors_arrive();  // comes back
  EXPECT_GT(pipe.unread(), 0);
}

// A disk that is full is told of once, however many threads find it so, and none writes
// into what is opened later.
TEST(Log, AFileThatIsFullIsLeftByAllThreads) {
  std::string folder = testing::TempDir() + "trireme-log-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  log::open_file(folder + "/rank-00000.log");
  log::set_rank(1);  // standard output, which may be a file, too, gets nothing
  log::line("before");
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{0, before.rlim_max};
  ErrorPipe pipe;
  ::setrlimit(RLIMIT_FSIZE, &full);
  std::barrier start(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      start.arrive_and_wait();
      log::line("nothing has room");
    });
  for (auto& thread : threads) thread.join();
  ::setrlimit(RLIMIT_FSIZE, &before);
  const std::string said = pipe.text();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("the log file of rank 1"), std::string::npos) << said;
  std::ofstream(folder + "/later") << "x";
  log::line("after");
  log::error("trireme: warning: after");
  log::set_rank(0);
  EXPECT_EQ(std::filesystem::file_size(folder + "/later"), 1U);
  std::ifstream file(folder + "/rank-00000.log");
  const std::string kept{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(kept.find("before"), std::string::npos);
  EXPECT_EQ(kept.find("after"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Terminal, ProseKeepsANumberBesideItsUnit) {
  EXPECT_EQ(wrapped("peak      optimizer 1.50 KiB, data", 26, 10),
            "peak      optimizer\n          1.50 KiB, data");
  EXPECT_EQ(wrapped("peak      optimizer 150 rows", 24, 10),
            "peak      optimizer 150\n          rows");
}

TEST(Terminal, ALineLeavesOutWhatHasNoRoom) {
  const std::vector<terminal::Field> fields = {
      {"step 1/9", 0}, {"norm 1.5", 2}, {"lr 3e-3", 1}, {"left 5 s", 0, 10}};
  EXPECT_EQ(terminal::line_of(fields, 0), "step 1/9  norm 1.5  lr 3e-3  left 5 s");
  EXPECT_EQ(terminal::line_of(fields, 39), terminal::line_of(fields, 0));
  // The last would have room, but not in a line where it is longer.
  EXPECT_EQ(terminal::line_of(fields, 38), "step 1/9  norm 1.5  left 5 s");
  EXPECT_EQ(terminal::line_of(fields, 29), "step 1/9  left 5 s");
  EXPECT_EQ(terminal::line_of(fields, 5), "step 1/9  left 5 s");
}

}  // namespace
}  // namespace trireme
