// Seconds since a time, on the clock that nobody sets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace trireme {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace trireme
