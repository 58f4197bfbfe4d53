// Timeline: what this process does in the steps that are profiled, held in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>

#include "base/memory.hpp"

namespace trireme {

// Every TraceRange of every thread is an event while the timeline records, and every
// collective from its start to its end. Outside of that each costs one branch.
class Timeline {
 public:
  // What is told of an event beside its name. Texts are literals.
  struct Note {
    const char* key = nullptr;
    const char* word = nullptr;  // null: a number
    std::int64_t number = 0;
  };
  struct Event {
    const char* name = nullptr;             // a literal
    std::int64_t begin_ns = 0, end_ns = 0;  // of the steady clock
    std::int64_t id = -1;                   // of what is in flight; -1: a thread's range
    int thread = 0;                         // 0: the one that began the recording
    std::array<char, 20> group{};           // a copy: groups may be gone when it is read
    std::array<Note, 3> notes{};

    void note(const Note& added);  // dropped where there is no room
    void set_group(std::string_view name);
  };

  // So many events are held at most; what comes then is dropped and counted.
  static constexpr std::size_t capacity = std::size_t{1} << 16;
  static constexpr std::size_t bytes = capacity * sizeof(Event);

  static bool records() { return records_.load(std::memory_order_relaxed); }
  static std::int64_t now();

  // Takes the memory, and records from now on. Ranges that are open stay unseen.
  void begin();
  // Records no more. What is held stays until release().
  void end();
  void release();

  // A range of this thread begins, and the one that began last ends.
  static void begin_range(const char* name);
  static void end_range();
  // Of the innermost range of this thread that is open.
  static void note(const char* key, std::int64_t number);
  static void note(const char* key, const char* word);
  static void note_group(std::string_view name);
  // Something that did not end in the order of ranges. Nothing if it began before the
  // recording did.
  void add(const Event& event);

  // Copies events from number `first` on; returns how many. Then clear() forgets them,
  // unless more than `seen` have come: then it is false and nothing happens.
  std::size_t copy(std::size_t first, std::span<Event> out) const;
  bool clear(std::size_t seen);
  std::size_t size() const;
  std::int64_t dropped() const;  // since begin()

 private:
  static constexpr int most_depth = 32;  // ranges within ranges; what is deeper is unseen
  // Of a thread: its open ranges in the recording of this number.
  struct Row {
    std::int64_t recording = 0;
    int thread = 0, depth = 0;
    std::array<Event, most_depth> open;

    Event* innermost() {
      return depth > 0 && depth <= most_depth ? &open[static_cast<std::size_t>(depth - 1)]
                                              : nullptr;
    }
  };
  Row& own_row();

  inline static std::atomic<bool> records_{false};
  mutable std::mutex mutex_;
  Buffer memory_;
  Event* events_ = nullptr;
  std::size_t count_ = 0;
  std::int64_t dropped_ = 0, begin_ns_ = 0;
  std::atomic<std::int64_t> recording_{0};
  int threads_ = 0;
};

// The timeline of this process.
Timeline& timeline();

}  // namespace trireme
