// TrafficMeter: calls, bytes and times between begin() and end(), by group.
// SPDX-License-Identifier: Apache-2.0
#include "comm/traffic_meter.hpp"

namespace trireme::comm {

double bus_factor(Collective kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (kind) {
    case Collective::all_reduce: return 2 * others;
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::all_to_all: return others;
    default: return 1;
  }
}

TrafficTimes times_of(const Traffic& traffic, const CallTimes& times, Collective kind,
                      int ranks) {
  TrafficTimes known;
  if (times.on_device > 0) return known;
  known.exposed_seconds = traffic.exposed_seconds;
  if (times.ended == 0) return known;
  known.seconds = times.seconds;
  if (times.seconds > 0)
    known.bus_bytes_per_second = bus_factor(kind, ranks) * times.bytes / times.seconds;
  return known;
}

TrafficMeter::TrafficMeter(const Mesh& mesh) {
  for (const Group* group : mesh.groups())
    entries_.push_back({group, {}, {}, {}, {}, {}, {}});
  begin();
}

void TrafficMeter::begin() {
  for (Entry& entry : entries_) {
    entry.before = entry.group->traffic();
    entry.times_before = trace().times_of(entry.group->name());
  }
}

void TrafficMeter::end() {
  for (Entry& entry : entries_) {
    const TrafficByKind& now = entry.group->traffic();
    const CallTimesByKind times = trace().times_of(entry.group->name());
    for (std::size_t kind = 0; kind < now.size(); ++kind) {
      entry.last[kind] = now[kind] - entry.before[kind];
      entry.total[kind] += entry.last[kind];
      entry.times_last[kind] = times[kind] - entry.times_before[kind];
      entry.times_total[kind] += entry.times_last[kind];
    }
  }
  ++laps_;
}

}  // namespace trireme::comm
