// Standard output, written so that nothing is lost in silence.
// SPDX-License-Identifier: Apache-2.0
#include "base/output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/system_reason.hpp"

namespace trireme::output {
namespace {

std::atomic<int> first_error{0};
std::mutex write_mutex;
std::atomic<const char*> consequence_of_loss{nullptr};  // none: it is told at the end

void lose(int error) {
  int none = 0;
  const char* const consequence = consequence_of_loss;
  if (!first_error.compare_exchange_strong(none, error) || consequence == nullptr) return;
  log::error(format("trireme: warning: standard output: {}; {}", system_reason(error),
                    consequence));
}

}  // namespace

void keep_descriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number, so this one. Opened the wrong way round, so that using it
    // fails as it would have done without.
    const int flags = number == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", flags) < 0) return;
  }
}

void write(std::string_view text) {
  const std::lock_guard lock(write_mutex);
  while (!text.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, text.data(), text.size());
    if (put > 0) {
      text.remove_prefix(static_cast<std::size_t>(put));
    } else if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      // Somebody who shares the pipe has made it non-blocking.
      pollfd writable{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (put == 0 || errno != EINTR) {
      return lose(put == 0 ? ENOSPC : errno);
    }
  }
}

void outlive_reader(const char* consequence) {
  std::signal(SIGPIPE, SIG_IGN);
  consequence_of_loss = consequence;
}

std::string why_lost() {
  if (first_error == 0) {
    // Closing a copy makes NFS write what it holds back, as closing the last one would.
    const int copy = ::dup(STDOUT_FILENO);
    if (copy >= 0 && ::close(copy) != 0 && errno != EINTR) lose(errno);
  }
  return first_error == 0 ? "" : std::strerror(first_error);
}

void require_whole() {
  const std::string why = why_lost();
  require(why.empty(), Status::io,
          "standard output: {}; what was to be read there is not whole", why);
}

}  // namespace trireme::output
