// The registry of kernel families.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/profile.hpp"

#include <algorithm>

namespace trireme::kernels {
namespace {

std::vector<ProfileFamily*>& families() {
  static std::vector<ProfileFamily*> list;
  return list;
}

}  // namespace

ProfileFamily::ProfileFamily(const char* name) : name_(name) {
  families().push_back(this);
}

std::vector<ProfileEntry> profile() {
  std::vector<ProfileEntry> entries;
  for (const ProfileFamily* family : families()) {
    if (family->calls_ > 0) {
      entries.push_back({family->name_, family->seconds_, family->calls_});
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
  }
}

}  // namespace trireme::kernels
