// TrafficMeter: what each group of a mesh did in a stretch of a program that repeats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/trace.hpp"
#include "comm/traffic.hpp"

namespace trireme::comm {

// What is known of how long calls took.
struct TrafficTimes {
  // Of the calls that ended in the lap, from posting to completion; empty where none did,
  // or where a GPU carried some.
  std::optional<double> seconds;
  // By the definition of nccl-tests, so that it does not depend on the number of ranks:
  // bytes of their whole tensors over `seconds`, times bus_factor(). Empty where that is.
  std::optional<double> bus_bytes_per_second;
  // That the host was blocked; empty where a GPU carried some and waited itself.
  std::optional<double> exposed_seconds;
};
TrafficTimes times_of(const Traffic& traffic, const CallTimes& times, Collective kind,
                      int ranks);

// What share of a collective's whole tensor each rank's link carries at least: all-reduce
// 2 (n - 1) / n, all-gather, reduce-scatter and all-to-all (n - 1) / n, others 1.
// NVIDIA, nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth".
double bus_factor(Collective kind, int ranks);

// begin() and end() enclose a lap. What happens between laps is not counted. Nothing is
// allocated after construction.
class TrafficMeter {
 public:
  struct Entry {
    const Group* group = nullptr;
    TrafficByKind before, last, total;  // at begin(); of the last lap; of all laps
    CallTimesByKind times_before, times_last, times_total;
  };

  // Of all groups of more than one rank. The mesh outlives the meter.
  explicit TrafficMeter(const Mesh& mesh);

  void begin();
  void end();

  const std::vector<Entry>& entries() const { return entries_; }
  std::int64_t laps() const { return laps_; }

 private:
  std::vector<Entry> entries_;
  std::int64_t laps_ = 0;
};

}  // namespace trireme::comm
