// MetricsHistory: what metrics.jsonl says, whatever state the file is in.
// SPDX-License-Identifier: Apache-2.0
#include "io/metrics_history.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "io/json_fields.hpp"
#include "io/lines.hpp"

namespace trireme::io {
namespace {

constexpr double most_step = 1e15;

constexpr std::size_t most_places = 64;

// Objects and lists of a line that are open at once: members are visited by recursion.
constexpr int most_levels = 16;

using Value = nlohmann::json;

void add_value(const std::string& key, const Value& value, std::int64_t step,
               const WantsKey& wants, MetricsHistory& history);

void add_list(const std::string& key, const Value& list, std::int64_t step,
              const WantsKey& wants, MetricsHistory& history) {
  if (!wants(key)) return;
  std::vector<double> values;
  for (const Value& value : list) {
    if (!value.is_number()) return;
    values.push_back(value.get<double>());
  }
  if (key.find('.') == std::string::npos && values.size() <= most_places)
    for (std::size_t i = 0; i < values.size(); ++i)
      history.series[key + "." + std::to_string(i)][step] = values[i];
  history.lists[key] = std::move(values);
}

void add_value(const std::string& key, const Value& value, std::int64_t step,
               const WantsKey& wants, MetricsHistory& history) {
  if (value.is_number()) {
    if (wants(key)) history.series[key][step] = value.get<double>();
  } else if (value.is_array()) {
    add_list(key, value, step, wants, history);
  } else if (value.is_object()) {
    for (const auto& [name, member] : value.items())
      add_value(key + "." + name, member, step, wants, history);
  }
}

// wants: none takes all numbers of the line itself.
bool add_line(const std::string& line, const WantsKey& wants, MetricsHistory& history) {
  if (!why_no_json(line, most_levels).empty()) return false;
  const auto record = Value::parse(line, nullptr, false);
  if (!record.is_object()) return false;
  const auto found = record.find("step");
  if (found == record.end() || !found->is_number()) return false;
  const double step = found->get<double>();
  if (!(step >= 0 && step <= most_step && step == std::floor(step))) return false;
  for (const auto& [key, value] : record.items()) {
    if (key == "step") continue;
    if (wants)
      add_value(key, value, static_cast<std::int64_t>(step), wants, history);
    else if (value.is_number() && key.find('.') == std::string::npos)
      history.series[key][static_cast<std::int64_t>(step)] = value.get<double>();
  }
  return true;
}

}  // namespace

const Series& MetricsHistory::series_of(const std::string& key) const {
  static const Series none;
  const auto found = series.find(key);
  return found == series.end() ? none : found->second;
}

std::int64_t MetricsHistory::last_step() const {
  std::int64_t last = 0;
  for (const auto& [key, values] : series)
    if (!values.empty()) last = std::max(last, values.rbegin()->first);
  return last;
}

MetricsHistory read_metrics(const std::string& path) { return read_metrics(path, {}); }

MetricsHistory read_metrics(const std::string& path, const WantsKey& wants) {
  MetricsHistory history;
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return history;
  LineReader lines(path, any_file);
  while (const auto line = lines.next())
    if (!line->empty() && !add_line(*line, wants, history)) ++history.damaged;
  return history;
}

}  // namespace trireme::io
