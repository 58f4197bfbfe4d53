// Timeline: events of all threads in one block of memory.
// SPDX-License-Identifier: Apache-2.0
#include "base/timeline.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <type_traits>

namespace trireme {

static_assert(std::is_trivially_copyable_v<Timeline::Event>);

void Timeline::Event::note(const Note& added) {
  for (Note& place : notes) {
    if (place.key != nullptr) continue;
    place = added;
    return;
  }
}

void Timeline::Event::set_group(std::string_view text) {
  group.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), group.size() - 1), group.begin());
}

std::int64_t Timeline::now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

void Timeline::begin() {
  const std::lock_guard lock(mutex_);
  memory_ = Buffer(Device::host(), DType::u8, {static_cast<std::int64_t>(bytes)},
                   MemoryClass::data, "profile");
  // The system gives pages when they are first written: now, and not within a range.
  std::memset(memory_.view().raw(), 0, bytes);
  events_ = static_cast<Event*>(memory_.view().raw());
  count_ = 0;
  dropped_ = 0;
  begin_ns_ = now();
  ++recording_;
  threads_ = 0;
  records_ = true;
}

void Timeline::end() { records_ = false; }

void Timeline::release() {
  const std::lock_guard lock(mutex_);
  memory_ = {};
  events_ = nullptr;
  count_ = 0;
}

// A thread that has open ranges of an earlier recording forgets them.
Timeline::Row& Timeline::own_row() {
  thread_local Row row;
  const std::int64_t recording = recording_.load(std::memory_order_relaxed);
  if (row.recording == recording) return row;
  row.recording = recording;
  row.depth = 0;
  const std::lock_guard lock(mutex_);
  row.thread = threads_++;
  return row;
}

void Timeline::begin_range(const char* name) {
  if (!records()) return;
  Row& row = timeline().own_row();
  ++row.depth;
  Event* const event = row.innermost();
  if (event == nullptr) return;
  *event = {};
  event->name = name;
  event->thread = row.thread;
  event->begin_ns = now();
}

// One that began before the recording finds no open range.
void Timeline::end_range() {
  if (!records()) return;
  Row& row = timeline().own_row();
  if (row.depth == 0) return;
  if (Event* const event = row.innermost()) {
    event->end_ns = now();
    timeline().add(*event);
  }
  --row.depth;
}

void Timeline::note(const char* key, std::int64_t number) {
  if (!records()) return;
  if (Event* const event = timeline().own_row().innermost())
    event->note({.key = key, .number = number});
}

void Timeline::note(const char* key, const char* word) {
  if (!records()) return;
  if (Event* const event = timeline().own_row().innermost())
    event->note({.key = key, .word = word});
}

void Timeline::note_group(std::string_view name) {
  if (!records()) return;
  if (Event* const event = timeline().own_row().innermost()) event->set_group(name);
}

void Timeline::add(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (events_ == nullptr || event.begin_ns < begin_ns_) return;
  if (count_ == capacity) {
    ++dropped_;
    return;
  }
  std::construct_at(events_ + count_++, event);
}

std::size_t Timeline::copy(std::size_t first, std::span<Event> out) const {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(out.size(), count_ - std::min(first, count_));
  std::copy_n(events_ + first, count, out.begin());
  return count;
}

bool Timeline::clear(std::size_t seen) {
  const std::lock_guard lock(mutex_);
  if (count_ > seen) return false;
  count_ = 0;
  return true;
}

std::size_t Timeline::size() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::int64_t Timeline::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

Timeline& timeline() {
  static Timeline of_this_process;
  return of_this_process;
}

}  // namespace trireme
