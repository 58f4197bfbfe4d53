// The log: a message on standard error is there before its writer goes on to end the job.
// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
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
  void read_all() const {
    std::array<char, 4096> text{};
    while (unread() > 0) ASSERT_GT(::read(ends_[0], text.data(), text.size()), 0);
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
