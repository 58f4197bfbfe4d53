// Another program's answer, without a shell.
// SPDX-License-Identifier: Apache-2.0
#include "base/run_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

namespace trireme {
namespace {

// What a child starts with: default signals, and a pipe for what it writes.
class Setting {
 public:
  explicit Setting(int output) {
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(&attributes,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  ~Setting() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
};

// Until the other end is closed, 4 KiB have come or the time is over. False: it is over.
bool read_until(int from, std::chrono::steady_clock::time_point end, std::string& text) {
  std::array<char, 4096> block;
  while (text.size() < block.size()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{from, POLLIN, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(left.count()));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return false;
    const ssize_t got = ::read(from, block.data(), block.size() - text.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  return true;
}

// Kills `child` where it has not ended by itself before `end`.
int status_of(pid_t child, std::chrono::steady_clock::time_point end) {
  constexpr std::chrono::milliseconds pause{5};
  int status = 0;
  for (;;) {
    const bool late = std::chrono::steady_clock::now() >= end;
    if (late) ::kill(child, SIGKILL);
    const pid_t found = ::waitpid(child, &status, late ? 0 : WNOHANG);
    if (found == child || (found < 0 && errno != EINTR)) return status;
    if (!late) std::this_thread::sleep_for(pause);
  }
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& words,
                                     double seconds) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {};
  std::vector<char*> arguments;
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  int failed = 0;
  {
    const Setting setting(pipe[1]);
    failed = ::posix_spawnp(&child, arguments[0], &setting.files, &setting.attributes,
                            arguments.data(), environ);
  }
  ::close(pipe[1]);
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                       std::chrono::duration<double>(std::min(seconds, 3600.0)));
  std::string text;
  const bool complete = failed == 0 && read_until(pipe[0], end, text);
  ::close(pipe[0]);
  if (failed != 0) return {};
  const int status = status_of(child, end);
  if (!complete || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return {};
  return text;
}

}  // namespace trireme
