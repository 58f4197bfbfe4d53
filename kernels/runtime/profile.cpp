// The registry of kernel families.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/profile.hpp"

#include <algorithm>
#include <utility>

#include "base/stopwatch.hpp"

namespace trireme::kernels {
namespace {

std::vector<ProfileFamily*>& families() {
  static std::vector<ProfileFamily*> list;
  return list;
}

Device& profiled() {
  static Device device;
  return device;
}

thread_local bool pauses = false;

}  // namespace

ProfilePause::ProfilePause() : before_(std::exchange(pauses, true)) {}
ProfilePause::~ProfilePause() { pauses = before_; }

ProfileFamily::ProfileFamily(const char* name) : name_(name) {
  families().push_back(this);
}

void ProfileFamily::add(double seconds) {
  if (pauses) return;
  seconds_ += seconds;
  ++calls_;
}

void ProfileFamily::add_bytes(double bytes) {
  if (!pauses) bytes_ += bytes;
}

std::vector<ProfileEntry> profile() {
  std::vector<ProfileEntry> entries;
  for (const ProfileFamily* family : families()) {
    if (family->calls_ > 0) {
      entries.push_back(
          {family->name_, family->seconds_, family->calls_, family->bytes_});
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return entries;
}

void reset_profile() {
  for (ProfileFamily* family : families()) {
    family->seconds_ = 0;
    family->calls_ = 0;
    family->bytes_ = 0;
  }
}

void profile_device(Device device) { profiled() = device; }

ProfileScope::ProfileScope(ProfileFamily& family)
    : family_(family), range_(family.name_) {
  if (pauses) return;
  if (profiled().is_cuda()) Stream(profiled()).synchronize();
  start_ = std::chrono::steady_clock::now();
}

ProfileScope::~ProfileScope() {
  if (pauses) return;
  if (profiled().is_cuda()) Stream(profiled()).synchronize();
  family_.add(seconds_since(start_));
}

}  // namespace trireme::kernels
