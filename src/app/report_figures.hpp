// The plots of a report: which there are, and what each shows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/plot.hpp"
#include "app/report_runs.hpp"

namespace trireme::app {

struct Figure {
  std::string file;     // "loss": of its SVG, without ".svg"
  std::string caption;  // a sentence on what is seen
  Plot plot;
  std::vector<int> runs;  // the run that each line is of
  bool is_share = false;  // values from 0 to 1 are percentages
  bool is_bytes = false;  // ticks in KiB, MiB, ...
};

// Loss, norm, learning rate, speed, MFU and memory of all runs together; time, memory by
// class, pipeline and experts of each. A run has the colour of its place in all of them;
// in a plot of one run's parts colours are those of the parts. Plots of what no run has
// are left out, but for those that every run should have.
std::vector<Figure> report_figures(const std::vector<ReportedRun>& runs);

}  // namespace trireme::app
