// AsyncErrors: asks all that works by itself on GPUs what has ended or failed.
// SPDX-License-Identifier: Apache-2.0
#include "comm/async_errors.hpp"

#include <algorithm>

#include "comm/recording.hpp"

namespace trireme::comm {

void AsyncErrors::add(AsyncSource* source) {
  const std::lock_guard lock(mutex_);
  sources_.push_back(source);
}

void AsyncErrors::remove(AsyncSource* source) {
  const std::lock_guard lock(mutex_);
  std::erase(sources_, source);
}

// A thread that records a graph may ask its GPU nothing.
void AsyncErrors::look() {
  if (recorded_calls() != nullptr) return;
  const std::lock_guard lock(mutex_);
  if (thrown_) return;
  try {
    for (AsyncSource* source : sources_) source->look();
  } catch (...) {
    thrown_ = true;
    throw;
  }
}

AsyncErrors& async_errors() {
  static AsyncErrors of_this_process;
  return of_this_process;
}

}  // namespace trireme::comm
