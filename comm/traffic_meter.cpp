// TrafficMeter: calls, bytes and exposed time between begin() and end(), by group.
// SPDX-License-Identifier: Apache-2.0
#include "comm/traffic_meter.hpp"

namespace trireme::comm {

TrafficMeter::TrafficMeter(const Mesh& mesh) {
  for (const Group* group : mesh.groups()) entries_.push_back({group, {}, {}, {}});
  begin();
}

void TrafficMeter::begin() {
  for (Entry& entry : entries_) entry.before = entry.group->traffic();
}

void TrafficMeter::end() {
  for (Entry& entry : entries_) {
    const TrafficByKind& now = entry.group->traffic();
    for (std::size_t kind = 0; kind < now.size(); ++kind) {
      entry.last[kind] = now[kind] - entry.before[kind];
      entry.total[kind] += entry.last[kind];
    }
  }
  ++laps_;
}

}  // namespace trireme::comm
