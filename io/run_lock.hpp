// One job at a time in a run's directory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace trireme::io {

// Held by one process of a job: the file `lock` in the directory, which says who holds
// it (host, process, job of the batch system), and the system's lock on that file. Of a
// process that died without removing the file the lock is taken over, with a warning:
// it is known to be dead on this host, or it was this very batch job before a requeue, or
// it has not been heard of for ten minutes.
class RunLock {
 public:
  // Throws Error(cannot_create) naming the holder when there is one.
  explicit RunLock(const std::string& directory);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Says that this process lives, at most every half minute. Call it often.
  void refresh();
  // Throws Error(io) if another process holds the lock by now. Safe in any thread.
  void check() const;

 private:
  std::string path_, text_;
  int file_ = -1;
  std::int64_t refreshed_ = 0;  // seconds of the system's clock
};

}  // namespace trireme::io
