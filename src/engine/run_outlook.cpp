// The pipeline's outlook, and tables of traffic.
// SPDX-License-Identifier: Apache-2.0
#include "engine/run_outlook.hpp"

#include <algorithm>
#include <cmath>

#include "base/format.hpp"
#include "base/text_table.hpp"
#include "schedule/stage_cut.hpp"

namespace trireme::engine {
namespace {

template <class Get>
std::vector<TrafficRow> rows_of(const comm::TrafficMeter& meter, const Get& get) {
  std::vector<TrafficRow> rows;
  for (const auto& entry : meter.entries()) {
    const comm::TrafficByKind& by_kind = get(entry);
    for (std::size_t kind = 0; kind < by_kind.size(); ++kind) {
      if (by_kind[kind].calls == 0) continue;
      rows.push_back({std::string(entry.group->name()),
                      static_cast<comm::Collective>(kind), by_kind[kind]});
    }
  }
  return rows;
}

// A mean number of calls: whole in most runs.
std::string calls_text(double calls) {
  return fixed(calls, calls == std::floor(calls) ? 0 : 1);
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
  return rows_of(
      meter, [](const auto& entry) -> const auto& { return entry.last; });
}

std::vector<TrafficRow> all_laps(const comm::TrafficMeter& meter) {
  return rows_of(
      meter, [](const auto& entry) -> const auto& { return entry.total; });
}

std::string traffic_table(const std::vector<TrafficRow>& rows, std::int64_t steps,
                          bool exposed) {
  if (rows.empty()) return {};
  std::vector<TextRow> table = {{"group", "collective", "calls", "bytes sent"}};
  if (exposed) table.front().push_back("exposed");
  const auto n = static_cast<double>(std::max<std::int64_t>(steps, 1));
  for (const TrafficRow& row : rows) {
    TextRow& line = table.emplace_back();
    line = {row.group, std::string(name_of(row.kind)),
            calls_text(static_cast<double>(row.traffic.calls) / n),
            human_bytes(static_cast<double>(row.traffic.bytes) / n)};
    if (exposed) line.push_back(fixed(1e3 * row.traffic.exposed_seconds / n, 2) + " ms");
  }
  return text_table(table, 2, 2);
}

}  // namespace trireme::engine
