// Shapes of pipelines that the tests of schedules go through.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"
#include "support/device.hpp"

namespace trireme::schedule {

inline const std::vector<ScheduleKind>& all_kinds() {
  static const std::vector<ScheduleKind> kinds = {
      ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
      ScheduleKind::zb_h1, ScheduleKind::zb_v,        ScheduleKind::dualpipe_v};
  return kinds;
}

inline PipelineShape shape_of(ScheduleKind kind, int p, std::int64_t m, int v = 2) {
  const bool one = kind == ScheduleKind::gpipe || kind == ScheduleKind::one_f_one_b ||
                   kind == ScheduleKind::zb_h1;
  return {kind, p, one ? 1 : kind == ScheduleKind::interleaved ? v : 2, m};
}

inline std::string name_of(const PipelineShape& shape) {
  return name_of(shape.kind) + " p " + std::to_string(shape.ranks) + " v " +
         std::to_string(shape.chunks) + " m " + std::to_string(shape.microbatches);
}

// Calls test(shape) for every kind, 1 to 64 ranks and 1 to 256 microbatches: all small
// ones, and around the multiples of the ranks where schedules change their form.
template <class Test>
void for_each_shape(Test test) {
  for (const int p : {1, 2, 3, 4, 5, 7, 8, 16, 32, 64}) {
    if (test::is_watched() && p > 8) break;
    std::set<std::int64_t> counts = {1,     2,         3,     p - 1,    p,
                                     p + 1, 2 * p - 1, 2 * p, 2 * p + 1};
    if (p <= 8) counts.insert({4, 5, 6, 7, 9, 10, 3 * p + 1, 64});
    if (p == 4 || p == 64) counts.insert(256);
    counts.erase(0);
    for (const std::int64_t m : counts) {
      for (const ScheduleKind kind : all_kinds()) {
        test(shape_of(kind, p, m));
        if (kind == ScheduleKind::interleaved && p <= 8) test(shape_of(kind, p, m, 3));
      }
    }
  }
}

}  // namespace trireme::schedule
