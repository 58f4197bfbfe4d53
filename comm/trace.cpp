// Trace.
// SPDX-License-Identifier: Apache-2.0
#include "comm/trace.hpp"

#include <algorithm>
#include <chrono>

#include "base/format.hpp"

namespace trireme::comm {
namespace {

double seconds_since_first_call() {
  using Clock = std::chrono::steady_clock;
  static const Clock::time_point first = Clock::now();
  return std::chrono::duration<double>(Clock::now() - first).count();
}

std::string line_of(const Trace::Entry& e) {
  return format(
      "\n  {} #{} {} on axis '{}', started at {} s, {}", name_of(e.kind), e.sequence,
      tensor_text(e.dtype, e.elements), e.group.data(), fixed(e.start_seconds, 3),
      e.end_seconds < 0 ? "in flight" : "ended at " + fixed(e.end_seconds, 3) + " s");
}

}  // namespace

std::string tensor_text(DType dtype, std::int64_t elements) {
  return format("{}[{}]", name_of(dtype), elements);
}

std::int64_t Trace::begin(std::string_view group, Collective kind, std::int64_t sequence,
                          DType dtype, std::int64_t elements) {
  const std::lock_guard lock(mutex_);
  Entry& entry = ring_[static_cast<std::size_t>(count_ % capacity)];
  entry.group.fill('\0');
  std::copy_n(group.begin(), std::min(group.size(), entry.group.size() - 1),
              entry.group.begin());
  entry.sequence = sequence;
  entry.elements = elements;
  entry.kind = kind;
  entry.dtype = dtype;
  entry.start_seconds = seconds_since_first_call();
  entry.end_seconds = -1;
  return count_++;
}

void Trace::end(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  if (id <= count_ - 1 - capacity) return;  // overwritten by younger ones
  ring_[static_cast<std::size_t>(id % capacity)].end_seconds = seconds_since_first_call();
}

std::int64_t Trace::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

Trace::Entry Trace::entry(std::int64_t id) const {
  const std::lock_guard lock(mutex_);
  require(id >= 0 && id < count_ && id >= count_ - capacity,
          "entry {} is not in the trace of {} collectives", id, count_);
  return at(id);
}

std::string Trace::last(std::int64_t entries) const {
  const std::lock_guard lock(mutex_);
  std::string lines;
  const std::int64_t held = std::min(count_, capacity);
  for (auto id = count_ - std::min(entries, held); id < count_; ++id)
    lines += line_of(at(id));
  return lines;
}

std::string Trace::in_flight(std::int64_t entries) const {
  const std::lock_guard lock(mutex_);
  std::string lines;
  for (auto id = count_ - std::min(count_, capacity); id < count_ && entries > 0; ++id) {
    if (at(id).end_seconds >= 0) continue;
    lines += line_of(at(id));
    --entries;
  }
  return lines;
}

Trace& trace() {
  static Trace of_this_process;
  return of_this_process;
}

}  // namespace trireme::comm
