// Where the time of kernels goes: seconds and calls by family, on this process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/device.hpp"
#include "base/trace_range.hpp"

namespace trireme::kernels {

struct ProfileEntry {
  std::string name;
  double seconds = 0;
  std::int64_t calls = 0;
  double bytes = 0;  // read and written, of families that count them
};

// Families by falling time, since start or the last reset. On a GPU kernels are only
// queued, and their times mean something only with profile_device().
std::vector<ProfileEntry> profile();
void reset_profile();

// From now on a scope waits at both ends for all work of `device`, if it is a GPU, so
// that its time is that of its kernels alone: slow, for reports. Device::host() ends
// that.
void profile_device(Device device);

// While one lives nothing is counted of what its thread does: plans run kernels on meta,
// on several threads at a time.
class ProfilePause {
 public:
  ProfilePause();
  ~ProfilePause();
  ProfilePause(const ProfilePause&) = delete;
  ProfilePause& operator=(const ProfilePause&) = delete;

 private:
  bool before_;
};

// Counters of one family, kept for the life of the process. Not for concurrent use:
// kernels of a process are started by one thread, but for those with a ProfilePause.
class ProfileFamily {
 public:
  explicit ProfileFamily(const char* name);
  void add(double seconds);
  void add_bytes(double bytes);

 private:
  friend std::vector<ProfileEntry> profile();
  friend void reset_profile();
  friend class ProfileScope;
  const char* name_;
  double seconds_ = 0;
  std::int64_t calls_ = 0;
  double bytes_ = 0;
};

// Times its own life and names it in a profiler's timeline. About 50 ns.
class ProfileScope {
 public:
  explicit ProfileScope(ProfileFamily& family);
  ~ProfileScope();
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  ProfileFamily& family_;
  TraceRange range_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace trireme::kernels
