// The log: lines on standard output, and warnings on standard error.
// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "base/output.hpp"
#include "base/text.hpp"

namespace trireme::log {
namespace {

int current_rank = 0;
bool is_quiet = false;

// One write a line, so that lines of several ranks do not mix.
std::string whole_line(std::string_view text) { return for_terminal(text) + '\n'; }

}  // namespace

void set_rank(int rank) { current_rank = rank; }
void set_quiet(bool quiet) { is_quiet = quiet; }
bool speaks() { return current_rank == 0 && !is_quiet; }
void line(std::string_view text) {
  if (speaks()) output::write(whole_line(text));
}
void error(std::string_view text) {
  const std::string whole = whole_line(text);
  std::fwrite(whole.data(), 1, whole.size(), stderr);
  std::fflush(stderr);
}

void let_errors_arrive() {
  struct stat about {};
  if (::fstat(STDERR_FILENO, &about) != 0 || !S_ISFIFO(about.st_mode)) return;
  constexpr int looks = 200;
  for (int i = 0; i < looks; ++i) {
    int unread = 0;  // of a pipe, at either end
    if (::ioctl(STDERR_FILENO, FIONREAD, &unread) != 0) return;
    if (unread == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // A launcher has read it, but forgets what it has not written yet when a rank ends.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace trireme::log
