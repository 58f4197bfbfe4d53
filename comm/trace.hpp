// Trace: the last collectives of this process, for the report of a hang.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collective.hpp"
#include "comm/rank_status.hpp"

namespace trireme::comm {

// "fp32[1024]".
std::string tensor_text(DType dtype, std::int64_t elements);

// Calls of one kind in one group, as the host sees them.
struct CallTimes {
  std::int64_t ended = 0;      // that the host saw end when they did
  double seconds = 0;          // of these, from posting to completion, summed
  double bytes = 0;            // of these, their whole tensors
  std::int64_t on_device = 0;  // others: a GPU carried them

  CallTimes& operator+=(const CallTimes& other) {
    ended += other.ended;
    seconds += other.seconds;
    bytes += other.bytes;
    on_device += other.on_device;
    return *this;
  }
  CallTimes operator-(const CallTimes& before) const {
    return {ended - before.ended, seconds - before.seconds, bytes - before.bytes,
            on_device - before.on_device};
  }
};
// Found at [static_cast<std::size_t>(Collective)].
using CallTimesByKind = std::array<CallTimes, collective_kinds>;

// The flight recorder: a ring of collectives, and how far each group has come.
class Trace {
 public:
  static constexpr std::int64_t capacity = 1024;
  static constexpr std::int64_t none = -1;  // the entry of a collective that has none

  struct Entry {
    std::array<char, 16> group{};  // a copy: groups may be gone when it is read
    std::int64_t sequence = 0;
    std::int64_t elements = 0;
    Collective kind = Collective::all_reduce;
    DType dtype = DType::f32;
    int members = -1;                            // what add_group() returned
    bool on_device = false;                      // see carried_by_device()
    double start_seconds = 0, end_seconds = -1;  // since the first entry; -1: in flight
  };

  // Announces a group of these world ranks; the result names it to begin(). Groups of the
  // same name and ranks are one.
  int add_group(std::string_view name, const RankList& ranks);
  // Enters a collective; the result identifies it to end(). group: of add_group(), or -1.
  std::int64_t begin(std::string_view name, Collective kind, std::int64_t sequence,
                     DType dtype, std::int64_t elements, int group = -1);
  void end(std::int64_t id);
  // A GPU carries that collective: end() is then called when somebody looks, and says
  // nothing of how long it took.
  void carried_by_device(std::int64_t id);

  // Collectives entered so far.
  std::int64_t count() const;
  // Entry `id` in [max(0, count() - capacity), count()).
  Entry entry(std::int64_t id) const;
  // The last `entries` of them, oldest first, a line each.
  std::string last(std::int64_t entries) const;
  // The oldest `entries` of those in flight, oldest first, a line each.
  std::string in_flight(std::int64_t entries) const;

  // Grows with every collective that starts or ends and every mark(): a process in which
  // it stands still does not get on.
  std::int64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  void mark() { progress_.fetch_add(1, std::memory_order_relaxed); }

  // How far each group has come, and what is in flight (the oldest 16).
  std::vector<GroupProgress> groups() const;
  std::vector<CallInFlight> calls() const;
  // Of the groups of that name, since the first entry. A call that ends when the ring has
  // let go of it is in none.
  CallTimesByKind times_of(std::string_view group) const;
  // All that the ring holds, oldest first: a JSON object a line.
  std::string json_lines(int rank) const;

 private:
  const Entry& at(std::int64_t id) const {
    return ring_[static_cast<std::size_t>(id % capacity)];
  }
  std::int64_t oldest() const { return count_ > capacity ? count_ - capacity : 0; }

  // Collectives are started by one thread; the watchdog's reads, and ends those of GPUs.
  mutable std::mutex mutex_;
  std::array<Entry, capacity> ring_{};
  std::int64_t count_ = 0;
  std::vector<GroupProgress> groups_;
  std::vector<CallTimesByKind> times_;  // of each group
  std::atomic<std::int64_t> progress_{0};
};

// The trace of this process.
Trace& trace();

}  // namespace trireme::comm
