// TrafficMeter: what each group of a mesh did in a stretch of a program that repeats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/mesh.hpp"
#include "comm/traffic.hpp"

namespace trireme::comm {

// begin() and end() enclose a lap. What happens between laps is not counted. Nothing is
// allocated after construction.
class TrafficMeter {
 public:
  struct Entry {
    const Group* group = nullptr;
    TrafficByKind before, last, total;  // at begin(); of the last lap; of all laps
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
