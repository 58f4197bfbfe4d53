// RunLock: one job at a time writes into a run's directory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/directory.hpp"

namespace trireme::io {

// A process and the job it belongs to.
struct ProcessName {
  std::string host;
  std::int64_t pid = 0;
  std::string job;    // of the batch system, "" if none: "1234", "1234_7" in an array
  std::string since;  // UTC, "2026-01-31T23:59:59Z"
  std::string describe() const;
};

// This process, now.
ProcessName this_process();
// "2026-01-31T23:59:59Z", now.
std::string utc_time();

// How long a lock that another process holds is waited for.
struct LockPatience {
  std::chrono::milliseconds leaving{2000};  // whoever holds it may be leaving
  // For one that names the job of this process: it may be what was lost of an earlier
  // start. Servers of NFS and Lustre keep the locks of a client that is gone for 90 to
  // 150 s.
  std::chrono::milliseconds same_job{0};
};

// Holds "<directory>/lock" from construction to destruction. The lock is the kernel's
// (flock), so that it goes with its process however that ends; the file's text names the
// holder. Between nodes it holds where the file system carries flock (NFS, GPFS, Lustre
// mounted with "flock").
class RunLock {
 public:
  // For rank 0, once the directory exists. `name`: of the file in it, for what is no run.
  // Throws Error(cannot_create) naming the holder, or what failed; a lock that is a link
  // or no regular file is not touched.
  explicit RunLock(const std::string& directory, std::string name = "lock",
                   const LockPatience& patience = {});
  ~RunLock();  // removes the file
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Who holds the lock of a directory now; nobody if there is no file, or one that a dead
  // process left. Throws Error(io) when that cannot be told, as of a FIFO or a link.
  static std::optional<ProcessName> holder(const std::string& directory);
  // Whether the file is there, of whoever held it last.
  static bool is_there(const std::string& directory);
  // Throws as the constructor does where that could not have the lock of a directory that
  // is there; takes and makes nothing.
  static void require_free(const std::string& directory);

 private:
  // Whether the lock was had. Throws as the constructor does.
  bool take();
  // The same, as long as a process of this job holds it.
  bool wait_for_own_job(std::chrono::milliseconds most);

  Directory folder_;
  std::string name_, path_;
  Descriptor file_;
};

}  // namespace trireme::io
