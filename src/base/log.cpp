// The log: lines on standard output, and warnings on standard error.
// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/output.hpp"
#include "base/process_stat.hpp"
#include "base/system_reason.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"

namespace trireme::log {
namespace {

int current_rank = 0;
Level current_level = Level::info;
// Threads write their lines here, a write each, without a lock: one that hangs in a write
// must not keep the watchdog from speaking. So the file is opened once and never closed
// while others may write; after a failure nobody uses it any more.
Descriptor own_file;
std::atomic<bool> writes_file{false};
std::mutex live_mutex;
std::atomic<bool> live_is_shown{false};  // error() asks without the lock
std::chrono::steady_clock::time_point live_time;
constexpr std::chrono::milliseconds live_pause{100};

// One write a line, so that lines of several ranks do not mix.
std::string whole_line(std::string_view text) { return for_terminal(text) + '\n'; }

bool speaks_aloud() { return current_rank == 0; }

// A whole line, or several, in the place of the line that moves.
void write_aloud(std::string_view text) {
  const std::lock_guard lock(live_mutex);
  std::string out = live_is_shown ? std::string(terminal::clear_line) : std::string();
  live_is_shown = false;
  output::write(out + terminal::coloured(for_terminal(text)) + '\n');
}

void write_to_file(std::string_view text) {
  std::array<char, 32> time{};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%SZ  ", &parts);
  if (write_all(own_file.get(), time.data() + whole_line(text))) return;
  const int reason = errno;
  // A full disk is told of once, and does not end the run.
  if (writes_file.exchange(false))
    error(format("trireme: warning: the log file of rank {}: {}", current_rank,
                 system_reason(reason)));
}

// Whether the process that has started this one is waiting to be run. One that waits for
// events has finished what it was woken for.
bool starter_is_busy() {
  const auto starter = process_stat(::getppid());
  return starter && starter->state == 'R';
}

}  // namespace

void set_rank(int rank) { current_rank = rank; }
void set_level(Level level) { current_level = level; }
void open_file(const std::string& path) {
  require(!own_file.is_open(), "a second log file of rank {}: {}", current_rank, path);
  own_file = Directory(parent_of(path)).open_to_append(last_name_of(path));
  writes_file = true;
}
bool speaks(Level level) {
  return level <= current_level && (speaks_aloud() || writes_file);
}
void line(std::string_view text, Level level) {
  if (level > current_level) return;
  if (writes_file) write_to_file(text);
  if (speaks_aloud()) write_aloud(text);
}
void always(std::string_view text) {
  if (writes_file) write_to_file(text);
  if (speaks_aloud()) write_aloud(text);
}
bool is_live() {
  return speaks_aloud() && current_level >= Level::info && terminal::columns() > 1;
}
void live(std::string_view text) {
  if (!is_live()) return;
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(live_mutex);
  if (now - live_time < live_pause) return;
  live_time = now;
  live_is_shown = true;
  const auto width = static_cast<std::size_t>(terminal::columns()) - 1;
  output::write(std::string(terminal::clear_line) +
                for_terminal(one_line(text.substr(0, width))));
}
void error(std::string_view text) {
  const std::string line = whole_line(text);
  std::string whole = terminal::error_text(line);
  if (live_is_shown) whole = '\n' + whole;
  std::fwrite(whole.data(), 1, whole.size(), stderr);
  std::fflush(stderr);
  if (writes_file) write_all(own_file.get(), line);  // last: its disk may hang
}

void let_errors_arrive() {
  using std::chrono::milliseconds;
  struct stat about {};
  if (::fstat(STDERR_FILENO, &about) != 0 || !S_ISFIFO(about.st_mode)) return;
  constexpr int looks = 200;
  for (int i = 0; i < looks; ++i) {
    int unread = 0;  // of a pipe, at either end
    if (::ioctl(STDERR_FILENO, FIONREAD, &unread) != 0) return;
    if (unread == 0) break;
    std::this_thread::sleep_for(milliseconds(5));
  }
  // A launcher has read it, but forgets what it has not written yet when a rank ends.
  // On a loaded machine it takes some time to be run.
  std::this_thread::sleep_for(milliseconds(300));
  for (int i = 0; i < looks && starter_is_busy(); ++i)
    std::this_thread::sleep_for(milliseconds(10));
}

}  // namespace trireme::log
