// Units of a packed operand that all threads read, packed by whoever needs one first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

namespace trireme::kernels {

// No thread waits before it begins, and none for long: a unit that is not there is packed
// at once by the thread that asks for it, and only one that is being packed is waited
// for. So a single thread may do all the work.
class PackedUnits {
 public:
  static constexpr std::int64_t most = 2048;

  // None of `units`, at most `most`, is packed. Not while other threads use this.
  void begin(std::int64_t units) {
    for (std::int64_t i = 0; i < units; ++i)
      states_[static_cast<std::size_t>(i)].store(missing, std::memory_order_relaxed);
  }

  // Returns when `unit` is packed, by pack() if nobody has begun to.
  template <class F>
  void need(std::int64_t unit, const F& pack) {
    std::atomic<std::uint8_t>& state = states_[static_cast<std::size_t>(unit)];
    std::uint8_t was = state.load(std::memory_order_acquire);
    if (was == packed) return;
    if (was == missing &&
        state.compare_exchange_strong(was, begun, std::memory_order_acquire)) {
      pack();
      state.store(packed, std::memory_order_release);
      return;
    }
    while (state.load(std::memory_order_acquire) != packed) std::this_thread::yield();
  }

  bool is_missing(std::int64_t unit) const {
    return states_[static_cast<std::size_t>(unit)].load(std::memory_order_relaxed) ==
           missing;
  }

 private:
  static constexpr std::uint8_t missing = 0, begun = 1, packed = 2;
  std::array<std::atomic<std::uint8_t>, most> states_;
};

}  // namespace trireme::kernels
