// Heartbeat: a thread that wakes when a step has taken long enough to say so.
// SPDX-License-Identifier: Apache-2.0
#include "train/heartbeat.hpp"

#include <algorithm>
#include <cmath>

#include "base/log.hpp"

namespace trireme::train {

Heartbeat::Heartbeat(double seconds) : pause_(std::max(seconds, 0.01)) {
  if (seconds > 0 && log::speaks()) thread_ = std::thread([this] { watch(); });
}

Heartbeat::~Heartbeat() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leaves_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

// A step that begins wakes nobody: the thread looks again when the last one would have
// been slow, and finds out how long it may sleep from then on.
void Heartbeat::begin(std::int64_t step) {
  part_ = "data";
  const std::lock_guard lock(mutex_);
  step_ = step;
  start_ = Clock::now();
}

void Heartbeat::end() {
  const std::lock_guard lock(mutex_);
  step_ = 0;
}

void Heartbeat::watch() {
  std::unique_lock lock(mutex_);
  std::int64_t told_of = 0;
  double told = 0;  // how many pauses of that step have been told of
  while (!leaves_) {
    if (step_ != told_of) told = 0;
    told_of = step_;
    const std::chrono::duration<double> under_way = Clock::now() - start_;
    auto sleep = pause_;
    if (step_ > 0) {
      if (under_way >= (told + 1) * pause_) {
        told = std::floor(under_way / pause_);
        log::info("step {}  under way for {}: {}", step_,
                  human_seconds(under_way.count()), part_.load());
      }
      sleep = (told + 1) * pause_ - under_way;
    }
    changed_.wait_for(lock, sleep);
  }
}

}  // namespace trireme::train
