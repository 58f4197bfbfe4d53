// MetricsHistory: what metrics.jsonl says, whatever state the file is in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trireme::io {

using Series = std::map<std::int64_t, double>;  // step, value

struct MetricsHistory {
  std::map<std::string, Series> series;  // by key; the last record of a step wins
  // With keys within: the last list of numbers of each key.
  std::map<std::string, std::vector<double>> lists;
  std::int64_t damaged = 0;  // lines that are no record of a step

  // The series of a key; an empty one if there is none.
  const Series& series_of(const std::string& key) const;
  std::int64_t last_step() const;  // 0 if there is none
};

// A missing or empty file is an empty history. Throws Error(io) when it cannot be read or
// is no regular file, Error(bad_content) when it is too long.
MetricsHistory read_metrics(const std::string& path);

// The same of keys that are wanted, those of records within a line, too, by their whole
// names ("memory.weights"), whether the line also has them by these or not. A list of at
// most 64 numbers is a series for each place in it ("idle_share.0").
using WantsKey = std::function<bool(const std::string& key)>;
MetricsHistory read_metrics(const std::string& path, const WantsKey& wants);

}  // namespace trireme::io
