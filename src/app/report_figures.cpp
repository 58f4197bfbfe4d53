// The plots of a report, from the series of its runs.
// SPDX-License-Identifier: Apache-2.0
#include "app/report_figures.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"

namespace trireme::app {
namespace {

std::vector<PlotPoint> points_of(const io::Series& series) {
  std::vector<PlotPoint> points;
  for (const auto& [step, value] : series)
    points.push_back({static_cast<double>(step), value});
  return points;
}

std::vector<PlotMark> marks_of(const ReportedRun& run, int colour) {
  std::vector<PlotMark> marks;
  for (const std::int64_t step : run.restarts())
    marks.push_back({static_cast<double>(step), colour});
  return marks;
}

// With one run only, marks are grey: there is nothing to tell apart.
std::vector<PlotMark> all_marks(const std::vector<ReportedRun>& runs) {
  std::vector<PlotMark> marks;
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (const PlotMark& mark :
         marks_of(runs[r], runs.size() > 1 ? static_cast<int>(r) : -1))
      marks.push_back(mark);
  return marks;
}

struct KeyLine {
  std::string key, what;
  bool dashed = false;
};

struct Subject {
  const char* file;
  const char* title;
  const char* unit;
  const char* caption;
  std::vector<KeyLine> keys;
  bool from_zero = false, is_share = false, is_bytes = false, always = false;
};

bool has_any(const std::vector<ReportedRun>& runs, const Subject& subject) {
  return std::any_of(runs.begin(), runs.end(), [&](const ReportedRun& run) {
    return !run.metrics.series_of(subject.keys.front().key).empty();
  });
}

// A figure of all runs, each with its colour.
Figure figure_of(const std::vector<ReportedRun>& runs, const Subject& subject) {
  Figure figure;
  figure.file = subject.file;
  figure.caption = subject.caption;
  figure.is_share = subject.is_share;
  figure.is_bytes = subject.is_bytes;
  Plot& plot = figure.plot;
  plot = {subject.title,   "step", subject.unit,     {},
          all_marks(runs), false,  subject.from_zero};
  for (std::size_t r = 0; r < runs.size(); ++r) {
    for (const auto& [key, what, dashed] : subject.keys) {
      const io::Series& series = runs[r].metrics.series_of(key);
      if (series.empty() && (key != subject.keys.front().key || !subject.always))
        continue;
      std::string name = runs.size() > 1 ? runs[r].name : what;
      if (runs.size() > 1 && key != subject.keys.front().key) name += " " + what;
      plot.lines.push_back({name, points_of(series), static_cast<int>(r), dashed});
      figure.runs.push_back(static_cast<int>(r));
    }
  }
  return figure;
}

// A figure of one run's parts.
Figure parts_of(const std::vector<ReportedRun>& runs, std::size_t r, std::string file,
                const std::string& title, const char* unit, std::string caption) {
  const bool named = runs.size() > 1;
  Figure figure;
  figure.file = std::move(file) + (named ? format("-{}", r) : "");
  figure.caption = std::move(caption);
  figure.plot = {named ? title + ": " + runs[r].name : title,
                 "step",
                 unit,
                 {},
                 marks_of(runs[r], -1),
                 false,
                 true};
  return figure;
}

void add_line(Figure& figure, std::size_t r, const std::string& name,
              const io::Series& series) {
  figure.plot.lines.push_back({name, points_of(series)});
  figure.runs.push_back(static_cast<int>(r));
}

Figure phases(const std::vector<ReportedRun>& runs, std::size_t r) {
  const StepParts parts = step_parts(runs[r]);
  Figure figure = parts_of(
      runs, r, "time", "Time of a step by phase", "seconds",
      parts.knows_waits
          ? "Communication not hidden is the time in which rank 0 waited for messages, "
            "in whichever phase; the rest of forward and backward computes."
          : "The rest of the reductions is what was left of them after backward. How "
            "long forward and backward waited for messages is not known: GPUs carried "
            "them.");
  figure.plot.stacked = true;
  add_line(figure, r, "forward and backward", parts.compute);
  add_line(figure, r,
           parts.knows_waits ? "communication not hidden" : "rest of the reductions",
           parts.exposed);
  add_line(figure, r, "optimizer", parts.optimizer);
  add_line(figure, r, "data", parts.data);
  add_line(figure, r, "other", parts.other);
  return figure;
}

// Lines of all keys with a prefix, in their order.
void add_with_prefix(Figure& figure, const std::vector<ReportedRun>& runs, std::size_t r,
                     const std::string& prefix, const std::string& name) {
  const auto& all = runs[r].metrics.series;
  for (auto at = all.lower_bound(prefix);
       at != all.end() && at->first.starts_with(prefix); ++at)
    add_line(figure, r, name + at->first.substr(prefix.size()), at->second);
}

void add_parts(const std::vector<ReportedRun>& runs, std::size_t r,
               std::vector<Figure>& out) {
  out.push_back(phases(runs, r));
  Figure memory =
      parts_of(runs, r, "memory-classes", "Memory by class", "bytes",
               "The most that each class has held on rank 0 since the start.");
  memory.plot.stacked = memory.is_bytes = true;
  add_with_prefix(memory, runs, r, "memory.", "");
  if (!memory.plot.lines.empty()) out.push_back(std::move(memory));
  Figure idle = parts_of(runs, r, "pipeline", "Pipeline: idle share of a step", "",
                         "Share of forward and backward in which a stage waited for "
                         "another, a line for each rank of the pipeline.");
  idle.is_share = true;
  add_with_prefix(idle, runs, r, "idle_share.", "rank ");
  if (!idle.plot.lines.empty()) out.push_back(std::move(idle));
  Figure waits = parts_of(runs, r, "exposed", "Communication not hidden, by group",
                          "seconds", "Seconds of a step in which rank 0 waited.");
  waits.plot.stacked = true;
  for (const auto& [name, series] : exposed_by_group(runs[r]))
    add_line(waits, r, name, series);
  if (!waits.plot.lines.empty()) out.push_back(std::move(waits));
}

const Subject subjects[] = {
    {"loss",
     "Loss",
     "per token",
     "Mean loss of the tokens of a step; validation dashed.",
     {{"loss", "training", false}, {"validation_loss", "validation", true}},
     false,
     false,
     false,
     true},
    {"gradient-norm",
     "Gradient norm",
     "before clipping",
     "Norm of the whole gradient.",
     {{"grad_norm", "norm", false}},
     true,
     false,
     false,
     true},
    {"learning-rate",
     "Learning rate",
     "",
     "Of tensors without a rate of their own.",
     {{"learning_rate", "learning rate", false}},
     true,
     false,
     false,
     true},
    {"tokens-per-second",
     "Tokens per second",
     "all ranks",
     "Speed of the whole job.",
     {{"tokens_per_second", "tokens/s", false}},
     true,
     false,
     false,
     true},
    {"predicted",
     "Time of a step, predicted and measured",
     "seconds",
     "Where train was given a machine file: what the plan said of a step; measured "
     "dashed.",
     {{"predicted_step_seconds", "predicted", false}, {"step_seconds", "measured", true}},
     true,
     false,
     false,
     false},
    {"mfu",
     "MFU",
     "",
     "Model FLOPs over the peak of all ranks.",
     {{"mfu", "MFU", false}},
     true,
     true,
     false,
     false},
    {"memory",
     "Memory",
     "bytes, the rank that held most",
     "The most since the start.",
     {{"memory_peak_bytes", "peak", false}},
     true,
     false,
     true,
     true},
    {"experts",
     "Expert load: largest over mean",
     "the worst layer",
     "1 is an even load of all experts.",
     {{"expert_imbalance", "largest over mean", false}},
     true,
     false,
     false,
     false},
    {"rounds",
     "Rounds of experts",
     "layers and microbatches",
     "1: what a rank got fits into parallel.expert_memory.",
     {{"expert_rounds_mean", "mean", false}, {"expert_rounds_max", "most", true}},
     true,
     false,
     false,
     false},
    {"loss-scale",
     "Loss scale",
     "",
     "With fp16.",
     {{"loss_scale", "scale", false}},
     true,
     false,
     false,
     false},
    {"margin",
     "Margin of rewards",
     "",
     "Preferred less other answer, a mean.",
     {{"rewards_margin", "margin", false}},
     true,
     false,
     false,
     false},
};

}  // namespace

std::vector<Figure> report_figures(const std::vector<ReportedRun>& runs) {
  std::vector<Figure> out;
  for (const Subject& subject : subjects)
    if (subject.always || has_any(runs, subject)) out.push_back(figure_of(runs, subject));
  for (std::size_t r = 0; r < runs.size(); ++r) add_parts(runs, r, out);
  return out;
}

}  // namespace trireme::app
