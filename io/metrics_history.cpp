// MetricsHistory: what metrics.jsonl says, whatever state the file is in.
// SPDX-License-Identifier: Apache-2.0
#include "io/metrics_history.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "io/lines.hpp"

namespace trireme::io {
namespace {

constexpr double most_step = 1e15;

bool add_line(const std::string& line, MetricsHistory& history) {
  const auto record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object()) return false;
  const auto found = record.find("step");
  if (found == record.end() || !found->is_number()) return false;
  const double step = found->get<double>();
  if (!(step >= 0 && step <= most_step && step == std::floor(step))) return false;
  for (const auto& [key, value] : record.items())
    if (key != "step" && value.is_number())
      history.series[key][static_cast<std::int64_t>(step)] = value.get<double>();
  return true;
}

}  // namespace

const Series& MetricsHistory::of(const std::string& key) const {
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

MetricsHistory read_metrics(const std::string& path) {
  MetricsHistory history;
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return history;
  LineReader lines(path);
  while (const auto line = lines.next())
    if (!line->empty() && !add_line(*line, history)) ++history.damaged;
  return history;
}

}  // namespace trireme::io
