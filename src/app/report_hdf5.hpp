// `trireme report --output FILE.h5`: the metrics of runs for HDF5's tools.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/report_runs.hpp"

namespace trireme::app {

// Throws Error(cannot_create) where something else lies at the place of such a file.
void check_metrics_file(const std::string& output);

// Writes a group for each run, called as its directory (a number behind it where two are
// called so), with a dataset `step`, int64 [n], and for each key of metrics.jsonl, by its
// whole name, one of float64 [n]: the value at those steps, NaN where a step has none.
// Attributes of a run's group are `directory` and the settings of its deck, by their
// whole keys. The file appears whole or not at all. Throws Error(cannot_create) and
// Error(io).
void write_metrics_file(const std::vector<ReportedRun>& runs, const std::string& output);

}  // namespace trireme::app
