// The pages of a report: HTML that needs no other file, and Markdown with SVG beside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/report_figures.hpp"
#include "app/report_runs.hpp"

namespace trireme::app {

struct Report {
  std::vector<ReportedRun> runs;
  std::vector<Figure> figures;
  std::vector<RunTotals> totals;              // of each run
  std::vector<std::optional<double>> losses;  // final ones, of each run
  std::vector<DifferingKey> differing;
};

// "-" for nothing, four digits behind the point where that says enough.
std::string loss_text(const std::optional<double>& value);
// "3 of 40": steps done and wanted.
std::string steps_text(const RunState& state);
// What is wrong with a run's files: the ends of sentences that begin "In <directory>: ".
std::vector<std::string> notes_of(const ReportedRun& run);
// "Report: a, b"
std::string title_of(const std::vector<ReportedRun>& runs);

// One file: tables, plots with their numbers, styles and the script that draws them;
// without scripts the plots are pictures. Names, hosts and messages are text in it
// whatever they hold.
std::string html_page(const Report& report);

// Plots are images at prefix + Figure::file + ".svg".
std::string markdown_page(const Report& report, const std::string& prefix);

}  // namespace trireme::app
