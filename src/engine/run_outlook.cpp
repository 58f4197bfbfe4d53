// The pipeline's outlook, and tables of traffic.
// SPDX-License-Identifier: Apache-2.0
#include "engine/run_outlook.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "base/text_table.hpp"
#include "schedule/stage_cut.hpp"

namespace trireme::engine {
namespace {

template <class Get>
std::vector<TrafficRow> rows_of(const comm::TrafficMeter& meter, const Get& get) {
  std::vector<TrafficRow> rows;
  for (const auto& entry : meter.entries()) {
    const auto [by_kind, times] = get(entry);
    for (std::size_t k = 0; k < by_kind.size(); ++k) {
      if (by_kind[k].calls == 0) continue;
      const auto kind = static_cast<comm::Collective>(k);
      rows.push_back({std::string(entry.group->name()), kind, by_kind[k],
                      times_of(by_kind[k], times[k], kind, entry.group->size())});
    }
  }
  return rows;
}

// A mean number of calls: whole in most runs.
std::string calls_text(double calls) {
  return fixed(calls, calls == std::floor(calls) ? 0 : 1);
}

// The part of one of `steps` steps; "-" where it is not known.
std::string milliseconds(const std::optional<double>& seconds, double steps) {
  return seconds ? fixed(1e3 * *seconds / steps, 2) + " ms" : "-";
}

}  // namespace

schedule::PipelineShape pipeline_shape(const config::RunConfig& config) {
  return {config.parallel.schedule, config.parallel.mesh.pipeline,
          config.parallel.virtual_stages, config.microbatches()};
}

std::vector<PipelineRank> pipeline_outlook(const config::RunConfig& config) {
  const schedule::PipelineShape shape = pipeline_shape(config);
  const auto cut =
      schedule::cut_stages(config.model, stages(shape), config.parallel.stage_layers);
  const std::vector<schedule::Schedule> schedules = make_schedules(shape);
  const schedule::Simulation simulation = simulate(shape, schedules);
  std::vector<PipelineRank> ranks;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    PipelineRank& out = ranks.emplace_back();
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      out.blocks.push_back(cut[static_cast<std::size_t>(stage_of(shape, rank, chunk))]);
    }
    out.idle_share = simulation.ranks[r].idle_share;
    out.live_microbatches = live_microbatches(schedules[r]);
  }
  return ranks;
}

std::string describe_blocks(const PipelineRank& rank) {
  std::string text;
  for (const Range& blocks : rank.blocks) {
    text += text.empty() ? "" : ", ";
    if (blocks.count() == 0) {
      text += blocks.begin == 0 ? "embedding" : "head";
      continue;
    }
    text += std::to_string(blocks.begin);
    if (blocks.count() > 1) text += "-" + std::to_string(blocks.end - 1);
  }
  return text;
}

std::vector<TrafficRow> last_lap(const comm::TrafficMeter& meter) {
  return rows_of(meter, [](const auto& entry) {
    return std::pair(std::span(entry.last), std::span(entry.times_last));
  });
}

std::vector<TrafficRow> all_laps(const comm::TrafficMeter& meter) {
  return rows_of(meter, [](const auto& entry) {
    return std::pair(std::span(entry.total), std::span(entry.times_total));
  });
}

std::string traffic_table(const std::vector<TrafficRow>& rows, std::int64_t steps,
                          TrafficColumns columns) {
  if (rows.empty()) return {};
  const bool measured = columns == TrafficColumns::measured;
  const bool exposed = columns != TrafficColumns::bytes;
  std::vector<TextRow> table = {{"group", "collective", "calls", "bytes sent"}};
  if (measured) table.front().insert(table.front().end(), {"time", "bus"});
  if (exposed) table.front().push_back("exposed");
  const auto n = static_cast<double>(std::max<std::int64_t>(steps, 1));
  for (const TrafficRow& row : rows) {
    TextRow& line = table.emplace_back();
    line = {row.group, std::string(name_of(row.kind)),
            calls_text(static_cast<double>(row.traffic.calls) / n),
            human_bytes(static_cast<double>(row.traffic.bytes) / n)};
    if (measured) {
      const auto& rate = row.times.bus_bytes_per_second;
      line.push_back(milliseconds(row.times.seconds, n));
      line.push_back(rate ? human_bytes(*rate) + "/s" : "-");
    }
    if (exposed) line.push_back(milliseconds(row.times.exposed_seconds, n));
  }
  return text_table(table, 2, 2);
}

}  // namespace trireme::engine
