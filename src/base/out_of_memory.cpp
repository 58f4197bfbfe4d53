// The advice on allocations that failed, of the part of the program that runs.
// SPDX-License-Identifier: Apache-2.0
#include "base/out_of_memory.hpp"

#include <utility>

namespace trireme {
namespace {

std::function<std::string()>& current() {
  static std::function<std::string()> advice;
  return advice;
}

}  // namespace

void advise_on_memory(std::function<std::string()> advice) {
  current() = std::move(advice);
}

std::string out_of_memory_advice() noexcept {
  // Taken away while it speaks: what it allocates may fail too.
  const std::function<std::string()> advice = std::exchange(current(), nullptr);
  try {
    return advice ? "\n" + advice() : std::string();
  } catch (...) {
    return {};
  }
}

}  // namespace trireme
