// MetricsHistory: what metrics.jsonl says, whatever state the file is in.
// SPDX-License-Identifier: Apache-2.0
#include "io/metrics_history.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

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
  if (::access(path.c_str(), F_OK) != 0) return history;
  std::ifstream in(path, std::ios::binary);
  require(in.good(), Status::io, "{}: cannot be read", path);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && !add_line(line, history)) ++history.damaged;
  require(!in.bad(), Status::io, "{}: read failed", path);
  return history;
}

}  // namespace trireme::io
