// A report as a page of Markdown.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "app/markup.hpp"
#include "app/report_pages.hpp"
#include "base/counted.hpp"
#include "base/format.hpp"

namespace trireme::app {
namespace {

std::string summary(const Report& report) {
  std::string out =
      "| Run | State | Step | Loss | Validation loss | Tokens/s, mean | MFU, mean | "
      "Hours | Tokens | Restarts |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (std::size_t r = 0; r < report.runs.size(); ++r) {
    const ReportedRun& run = report.runs[r];
    const RunTotals& totals = report.totals[r];
    const std::string note = run.state.note.empty() ? "" : ": " + run.state.note;
    const bool has_steps = totals.steps > 0;
    out += format("| {} | {}{} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                  markdown_text(run.name), name_of(run.state.phase), markdown_text(note),
                  steps_text(run.state), loss_text(run.state.loss),
                  loss_text(run.state.validation_loss),
                  has_steps ? human_count(totals.tokens_per_second) : "-",
                  totals.mfu > 0 ? fixed(100 * totals.mfu, 1) + " %" : "-",
                  has_steps ? fixed(totals.seconds / 3600, 2) : "-",
                  has_steps ? human_count(totals.tokens) : "-", run.restarts().size());
  }
  return out;
}

std::string differences(const Report& report) {
  if (report.runs.size() < 2 || report.differing.empty()) return "";
  std::string head = "| Key | Explains |", rule = "| --- | --- |", rows;
  for (const auto& run : report.runs) {
    head += " " + markdown_text(run.name) + " |";
    rule += " --- |";
  }
  for (const DifferingKey& key : report.differing) {
    rows += format("| {} | {} |", markdown_text(key.key),
                   key.share ? fixed(100 * *key.share, 0) + " %" : std::string("-"));
    for (const auto& value : key.values) rows += " " + markdown_text(value) + " |";
    rows += "\n";
  }
  return "\n## Keys that differ\n\nExplains: the share of the final losses' variance "
         "that lies between a key's values.\n\n" +
         head + "\n" + rule + "\n" + rows;
}

std::string history(const ReportedRun& run) {
  if (run.starts.empty()) return "";
  std::string out = format(
      "\n## Starts of {}\n\n| After step | Ranks | Where |\n| --- | --- "
      "| --- |\n",
      markdown_text(run.name));
  for (const auto& start : run.starts)
    out += format("| {} | {} | {} |\n", start.step, start.ranks,
                  markdown_text(start.process.describe()));
  return out;
}

}  // namespace

std::string loss_text(const std::optional<double>& value) {
  if (!value) return "-";
  return std::abs(*value) < 1e9 ? fixed(*value, 4) : exact(*value);
}

std::string steps_text(const RunState& state) {
  return format("{} of {}", state.step,
                state.steps > 0 ? std::to_string(state.steps) : std::string("?"));
}

std::vector<std::string> notes_of(const ReportedRun& run) {
  std::vector<std::string> notes;
  if (run.metrics.last_step() == 0) notes.emplace_back("metrics.jsonl has no step.");
  if (run.metrics.damaged > 0)
    notes.push_back(format("{} of metrics.jsonl {} damaged and left out.",
                           counted(run.metrics.damaged, "line"),
                           run.metrics.damaged == 1 ? "is" : "are"));
  return notes;
}

std::string title_of(const std::vector<ReportedRun>& runs) {
  std::string title = "Report";
  for (std::size_t i = 0; i < runs.size() && runs.size() <= 4; ++i)
    title += (i ? ", " : ": ") + runs[i].name;
  return runs.size() > 4 ? format("Report: {} runs", runs.size()) : title;
}

std::string markdown_page(const Report& report, const std::string& prefix) {
  std::string out =
      "# " + markdown_text(title_of(report.runs)) + "\n\n" + summary(report);
  bool restarted = false;
  for (const auto& run : report.runs) {
    for (const auto& note : notes_of(run))
      out += format("\nIn {}: {}\n", markdown_text(run.directory), note);
    restarted = restarted || !run.restarts().empty();
  }
  if (restarted)
    out += report.runs.size() > 1
               ? "\nDashed lines are restarts, in the colour of their run.\n"
               : "\nDashed lines are restarts.\n";
  out += differences(report);
  for (const auto& figure : report.figures) {
    const std::string title = markdown_text(figure.plot.title);
    out += format("\n## {}\n\n![{}]({})\n", title, title,
                  markdown_path(prefix + figure.file + ".svg"));
  }
  for (const auto& run : report.runs) out += history(run);
  return out;
}

}  // namespace trireme::app
