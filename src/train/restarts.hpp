// Restarts: a batch job that starts again and again must come further each time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "train/batch_job.hpp"

namespace trireme::train {

// Notes in `<directory>/restarts` that a start of `job` goes on from `step`; nothing
// outside of a batch job. Throws Error(resources), so that nobody starts it once more,
// when the last three starts of the same job went on from that step, too.
// Removes the file that the variable TRIREME_STARTS names, in which the job script counts
// the starts that came to nothing before this. For one rank.
void note_start(const std::string& directory, const BatchJob& job, std::int64_t step);

}  // namespace trireme::train
