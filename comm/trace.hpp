// Trace: the last collectives of this process, for the report of a hang.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/collective.hpp"

namespace trireme::comm {

// "fp32[1024]".
std::string tensor_text(DType dtype, std::int64_t elements);

class Trace {
 public:
  static constexpr std::int64_t capacity = 1024;

  struct Entry {
    std::array<char, 16> group{};  // a copy: groups may be gone when it is read
    std::int64_t sequence = 0;
    std::int64_t elements = 0;
    Collective kind = Collective::all_reduce;
    DType dtype = DType::f32;
    double start_seconds = 0, end_seconds = -1;  // since the first entry; -1: in flight
  };

  // Enters a collective; the result identifies it to end().
  std::int64_t begin(std::string_view group, Collective kind, std::int64_t sequence,
                     DType dtype, std::int64_t elements);
  void end(std::int64_t id);

  // Collectives entered so far.
  std::int64_t count() const;
  // Entry `id` in [max(0, count() - capacity), count()).
  Entry entry(std::int64_t id) const;
  // The last `entries` of them, oldest first, a line each.
  std::string last(std::int64_t entries) const;
  // The oldest `entries` of those in flight, oldest first, a line each.
  std::string in_flight(std::int64_t entries) const;

 private:
  const Entry& at(std::int64_t id) const {
    return ring_[static_cast<std::size_t>(id % capacity)];
  }

  // Collectives are started by one thread; the watchdog's reads, and ends those of GPUs.
  mutable std::mutex mutex_;
  std::array<Entry, capacity> ring_{};
  std::int64_t count_ = 0;
};

// Of this process.
Trace& trace();

}  // namespace trireme::comm
