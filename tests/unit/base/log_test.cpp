// The log: a message on standard error is there before its writer goes on to end the job.
// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

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

}  // namespace
}  // namespace trireme
