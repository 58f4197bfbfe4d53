// Schedules that are kept while they are in use.
// SPDX-License-Identifier: Apache-2.0
#include "schedule/shared_schedules.hpp"

#include <map>
#include <mutex>
#include <tuple>

namespace trireme::schedule {
namespace {

using Schedules = std::vector<Schedule>;

auto key_of(const PipelineShape& shape) {
  return std::tuple(shape.kind, shape.ranks, shape.chunks, shape.microbatches);
}

}  // namespace

// Others may ask for another shape meanwhile, which takes its time to make: nobody holds
// the lock then.
std::shared_ptr<const Schedules> shared_schedules(const PipelineShape& shape) {
  static std::mutex mutex;
  static std::map<decltype(key_of(shape)), std::weak_ptr<const Schedules>> kept;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = kept.find(key_of(shape)); found != kept.end())
      if (auto all = found->second.lock()) return all;
  }
  auto all = std::make_shared<const Schedules>(make_schedules(shape));
  const std::lock_guard lock(mutex);
  std::erase_if(kept, [](const auto& one) { return one.second.expired(); });
  kept[key_of(shape)] = all;
  return all;
}

}  // namespace trireme::schedule
