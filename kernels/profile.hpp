// Where the time of kernels goes: seconds and calls by family, on this process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::kernels {

struct ProfileEntry {
  std::string name;
  double seconds = 0;
  std::int64_t calls = 0;
};

// Families by falling time, since start or the last reset. Host kernels only.
std::vector<ProfileEntry> profile();
void reset_profile();

// Counters of one family, kept for the life of the process. Not for concurrent use:
// kernels of a process are started by one thread.
class ProfileFamily {
 public:
  explicit ProfileFamily(const char* name);
  void add(double seconds) {
    seconds_ += seconds;
    ++calls_;
  }

 private:
  friend std::vector<ProfileEntry> profile();
  friend void reset_profile();
  const char* name_;
  double seconds_ = 0;
  std::int64_t calls_ = 0;
};

// Times its own life. About 50 ns.
class ProfileScope {
 public:
  explicit ProfileScope(ProfileFamily& family) : family_(family) {}
  ~ProfileScope() {
    family_.add(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count());
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  ProfileFamily& family_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace trireme::kernels
