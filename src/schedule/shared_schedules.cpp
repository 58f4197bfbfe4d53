// Schedules that are kept while they are in use.
// SPDX-License-Identifier: Apache-2.0
#include "schedule/shared_schedules.hpp"

#include <mutex>
#include <tuple>

namespace trireme::schedule {
namespace {

auto key_of(const PipelineShape& shape) {
  return std::tuple(shape.kind, shape.ranks, shape.chunks, shape.microbatches);
}

}  // namespace

std::shared_ptr<const std::vector<Schedule>> shared_schedules(
    const PipelineShape& shape) {
  static std::mutex mutex;
  static PipelineShape last;
  static std::weak_ptr<const std::vector<Schedule>> kept;
  const std::lock_guard lock(mutex);
  if (auto all = kept.lock(); all && key_of(last) == key_of(shape)) return all;
  auto all = std::make_shared<const std::vector<Schedule>>(make_schedules(shape));
  last = shape;
  kept = all;
  return all;
}

}  // namespace trireme::schedule
