// What a run's configuration says about its pipeline.
// SPDX-License-Identifier: Apache-2.0
// Trainer and planner share these reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/split.hpp"
#include "comm/traffic_meter.hpp"
#include "config/run_config.hpp"
#include "schedule/simulation.hpp"

namespace trireme::engine {

// What one rank of the pipeline runs.
struct PipelineRank {
  std::vector<Range> blocks;           // of each chunk
  double idle_share = 0;               // simulated
  std::int64_t live_microbatches = 0;  // most that are between forward and backward's end
};

schedule::PipelineShape pipeline_shape(const config::RunConfig& config);

// One entry for each rank of the pipeline, where forward, backward for the input and
// backward for the weights take one unit of time each. Cost: linear in the number of
// actions.
std::vector<PipelineRank> pipeline_outlook(const config::RunConfig& config);

// "0-3 and 12-15": the blocks of a rank, counted from 0.
std::string describe_blocks(const PipelineRank& rank);

// Traffic of one group and kind.
struct TrafficRow {
  std::string group;
  comm::Collective kind = comm::Collective::all_reduce;
  comm::Traffic traffic;
  comm::TrafficTimes times;
};

// The last lap of a meter, without rows of nothing.
std::vector<TrafficRow> last_lap(const comm::TrafficMeter& meter);
// The sum of all laps.
std::vector<TrafficRow> all_laps(const comm::TrafficMeter& meter);

// What a table of traffic has beside calls and bytes.
enum class TrafficColumns : std::uint8_t { bytes, exposed, measured };

// A table of what happens in each of `steps` steps, if `rows` is their sum: group,
// collective, calls, bytes and, if asked for, exposed time, measured also time and bus
// bandwidth: "-" where that is not known. Empty if nothing happens.
std::string traffic_table(const std::vector<TrafficRow>& rows, std::int64_t steps,
                          TrafficColumns columns);

}  // namespace trireme::engine
