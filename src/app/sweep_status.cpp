// The table of a sweep's points, and which of them are to be run again.
// SPDX-License-Identifier: Apache-2.0
#include "app/sweep_status.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/shell.hpp"
#include "base/format.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/text_table.hpp"
#include "io/json_fields.hpp"

namespace trireme::app {
namespace {

constexpr std::int64_t array_size = 1000;

std::string number(const std::optional<double>& value) {
  return value ? fixed(*value, 6) : "-";
}

std::string steps_text(const RunState& state) {
  const std::string total = state.steps > 0 ? std::to_string(state.steps) : "?";
  return state.phase == RunPhase::waiting ? "-" : format("{}/{}", state.step, total);
}

}  // namespace

std::vector<RunState> point_states(const SweepManifest& manifest) {
  std::vector<RunState> states;
  for (std::size_t i = 0; i < manifest.points.size(); ++i)
    states.push_back(run_state(manifest.run_directory(static_cast<std::int64_t>(i))));
  return states;
}

std::int64_t best_point(const std::vector<RunState>& states) {
  const bool any_done = std::any_of(states.begin(), states.end(), [](const auto& s) {
    return s.phase == RunPhase::done && s.loss;
  });
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < states.size(); ++i)
    if (states[i].loss && (!any_done || states[i].phase == RunPhase::done))
      candidates.push_back(i);
  const bool validated =
      std::all_of(candidates.begin(), candidates.end(),
                  [&](std::size_t i) { return states[i].validation_loss.has_value(); });
  std::int64_t best = -1;
  double lowest = 0;
  for (const std::size_t i : candidates) {
    const double loss = validated ? *states[i].validation_loss : *states[i].loss;
    if (best >= 0 && loss >= lowest) continue;
    best = static_cast<std::int64_t>(i);
    lowest = loss;
  }
  return best;
}

std::string status_table(const SweepManifest& manifest,
                         const std::vector<RunState>& states) {
  const std::int64_t best = best_point(states);
  std::vector<TextRow> rows = {
      {"", "state", "overrides", "index", "step", "loss", "validation"}};
  std::map<RunPhase, int> count;
  std::string notes;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const RunState& state = states[i];
    ++count[state.phase];
    rows.push_back({static_cast<std::int64_t>(i) == best ? "*" : "", name_of(state.phase),
                    joined(manifest.points[i].overrides, " "), std::to_string(i),
                    steps_text(state), number(state.loss),
                    number(state.validation_loss)});
    if (!state.note.empty())
      notes += wrapped(format("{}: {}\n", i, state.note), terminal::prose_columns(), 3);
  }
  std::string text = text_table(rows, 3, 0) + notes +
                     format("{} points: {} done", states.size(), count[RunPhase::done]);
  for (const auto& [phase, points] : count)
    if (phase != RunPhase::done) text += format(", {} {}", points, name_of(phase));
  if (best >= 0)
    text += format("\nbest: point {} in {}, loss {}", best, manifest.run_directory(best),
                   number(states[static_cast<std::size_t>(best)].loss));
  return text;
}

std::string status_json(const SweepManifest& manifest,
                        const std::vector<RunState>& states) {
  using io::Json;
  const std::int64_t best = best_point(states);
  const auto loss = [](const std::optional<double>& value) {
    return value && std::isfinite(*value) ? Json(*value) : Json();
  };
  Json points = Json::array();
  for (std::size_t i = 0; i < states.size(); ++i) {
    const RunState& state = states[i];
    const auto index = static_cast<std::int64_t>(i);
    points.push_back({{"index", index},
                      {"directory", manifest.run_directory(index)},
                      {"state", name_of(state.phase)},
                      {"step", state.step},
                      {"steps", state.steps},
                      {"loss", loss(state.loss)},
                      {"validation_loss", loss(state.validation_loss)},
                      {"best", index == best},
                      {"overrides", manifest.points[i].overrides},
                      {"note", state.note}});
  }
  return points.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string status_csv(const SweepManifest& manifest,
                       const std::vector<RunState>& states) {
  const std::int64_t best = best_point(states);
  const auto field = [](const std::string& text) {
    std::string out = "\"";
    for (const char c : one_line(text)) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
  };
  const auto loss = [](const std::optional<double>& value) {
    return value ? exact(*value) : std::string();
  };
  std::string out =
      "index,directory,state,step,steps,loss,validation_loss,best,overrides,note\n";
  for (std::size_t i = 0; i < states.size(); ++i) {
    const RunState& state = states[i];
    const auto index = static_cast<std::int64_t>(i);
    out += format("{},{},{},{},{},{},{},{},{},{}\n", index,
                  field(manifest.run_directory(index)), name_of(state.phase), state.step,
                  state.steps, loss(state.loss), loss(state.validation_loss),
                  index == best ? "true" : "false",
                  field(joined(manifest.points[i].overrides, " ")), field(state.note));
  }
  out.pop_back();
  return out;
}

std::vector<std::int64_t> unfinished(const std::vector<RunState>& states, bool all) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < states.size(); ++i)
    if (states[i].phase != RunPhase::done && states[i].phase != RunPhase::running &&
        (all || states[i].status != Status::diverged))
      out.push_back(static_cast<std::int64_t>(i));
  return out;
}

std::string array_expression(const std::vector<std::int64_t>& indices) {
  std::string out;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t end = i + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    if (!out.empty()) out += ",";
    out += std::to_string(indices[i]);
    if (end - i > 1) out += (end - i > 2 ? "-" : ",") + std::to_string(indices[end - 1]);
    i = end;
  }
  return out;
}

std::string submit_commands(const std::vector<std::int64_t>& indices,
                            const std::string& script) {
  std::map<std::int64_t, std::vector<std::int64_t>> arrays;  // by offset
  for (const std::int64_t index : indices)
    arrays[index / array_size * array_size].push_back(index % array_size);
  std::string out;
  for (const auto& [offset, own] : arrays) {
    out += format("sbatch --array={} {}", array_expression(own), shell_path(script));
    out += offset > 0 ? format(" {}\n", offset) : "\n";
  }
  return out;
}

}  // namespace trireme::app
