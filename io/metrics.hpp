// metrics.jsonl: one JSON object a line, at full precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/directory.hpp"

namespace trireme::io {

// An ordered JSON object of numbers, texts, lists of numbers, other such objects and
// lists of those. Non-finite numbers are written as null.
class Record {
 public:
  Record& set(const std::string& key, double value);
  Record& set(const std::string& key, std::int64_t value);
  Record& set(const std::string& key, const std::string& value);
  Record& set(const std::string& key, const std::vector<double>& values);
  Record& set(const std::string& key, const Record& value);
  Record& set(const std::string& key, const std::vector<Record>& values);
  // The fields of another record, after those here.
  Record& append(const Record& other);
  bool empty() const { return fields_.empty(); }
  // This record, and behind its fields those of the records within it (not within lists),
  // each under its whole name: "communication.tensor.all_gather.bytes".
  Record flat() const;
  // The fields that are finite numbers, in order.
  std::vector<std::pair<std::string, double>> numbers() const;
  std::string json() const;

 private:
  using Fields = std::vector<std::pair<std::string, std::string>>;  // key, JSON text
  Fields fields_;
  Fields within_;  // of records that are fields, under their whole names
};

// Seconds since 1970, to the millisecond.
double wall_time();

// A line of metrics.jsonl: its kind and the time, what is recorded, and the fields of
// records within once more under their whole names.
Record metrics_line(const std::string& kind, const Record& record);

// Of one training step, as a metrics file has it.
struct StepLine {
  std::int64_t step = 0;
  double loss = 0, grad_norm = 0, step_seconds = 0;  // NaN where the file has null
  bool skipped = false;
};

// The last `most` training steps up to step `last`, in order. A file that does not exist
// has none; lines that are no steps are passed over. Only the end of the file that holds
// them is read. Throws as PlainFile does, and Error(cannot_create) when the file is a
// link or no regular file.
std::vector<StepLine> read_steps(const std::string& path, std::int64_t last,
                                 std::int64_t most);

// The file of rank 0. Opened at step `resumed` of the run that wrote it: lines of later
// steps are dropped (they will be written again), a torn last line too; with resumed = 0
// an existing file is kept under the name metrics-N.jsonl. Each line is flushed.
class MetricsFile {
 public:
  // Throws Error(cannot_create), also when the file is a link or no regular file, or
  // Error(io).
  MetricsFile(const std::string& path, std::int64_t resumed);
  void write(const Record& record);

 private:
  std::string path_;
  Descriptor file_;
};

}  // namespace trireme::io
