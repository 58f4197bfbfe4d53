// Schedules of all ranks that several callers share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "schedule/schedule.hpp"

namespace trireme::schedule {

// make_schedules(), made once as long as somebody holds the result: a plan runs the
// engine of each stage, and each of these asks for its rank's row of the same schedules.
// Any thread.
std::shared_ptr<const std::vector<Schedule>> shared_schedules(const PipelineShape& shape);

}  // namespace trireme::schedule
