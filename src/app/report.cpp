// `trireme report RUN ...`: a Markdown page with plots of one or more runs.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "app/app.hpp"
#include "app/markup.hpp"
#include "app/plot.hpp"
#include "app/run_state.hpp"
#include "base/log.hpp"
#include "io/files.hpp"
#include "io/metrics_history.hpp"
#include "io/run_status.hpp"

namespace trireme::app {
namespace {

struct Run {
  std::string name, directory;
  io::MetricsHistory metrics;
  RunState state;
  std::vector<io::RunStart> starts;
};

bool is_directory(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Run read_run(const std::string& directory) {
  Run run;
  run.directory = without_slashes(directory);
  require(is_directory(run.directory), Status::missing_input,
          "{}: no such run; give the run.directory of its deck", run.directory);
  run.name = run.directory.substr(run.directory.find_last_of('/') + 1);
  run.metrics = io::read_metrics(run.directory + "/metrics.jsonl");
  run.state = run_state(run.directory);
  try {
    if (auto status = io::read_run_status(run.directory))
      run.starts = std::move(status->starts);
  } catch (const Error& error) {
    log::warn("{}", error.what());
  }
  return run;
}

std::vector<PlotPoint> points_of(const io::Series& series) {
  std::vector<PlotPoint> points;
  for (const auto& [step, value] : series)
    points.push_back({static_cast<double>(step), value});
  return points;
}

// Steps after which runs went on, once they had been stopped.
std::vector<double> restarts(const std::vector<Run>& runs) {
  std::vector<double> steps;
  for (const auto& run : runs)
    for (const auto& start : run.starts)
      if (start.step > 0 && start.step < run.metrics.last_step())
        steps.push_back(static_cast<double>(start.step));
  return steps;
}

struct Figure {
  std::string file, title;  // file: without ".svg"
  Plot plot;
};

Figure figure(const std::vector<Run>& runs, const char* file, const char* title,
              const char* unit, std::vector<std::pair<std::string, std::string>> keys,
              bool from_zero) {
  Plot plot{title, "step", unit, {}, restarts(runs), false, from_zero};
  for (const auto& run : runs) {
    for (const auto& [key, what] : keys) {
      const io::Series& series = run.metrics.of(key);
      if (series.empty() && key != keys.front().first) continue;
      std::string name = runs.size() > 1 ? run.name : what;
      if (runs.size() > 1 && keys.size() > 1) name += " " + what;
      plot.lines.push_back({name, points_of(series)});
    }
  }
  return {file, title, plot};
}

// What of a step the four phases do not account for is the fifth.
Figure phases(const Run& run, const std::string& file, bool named) {
  constexpr std::array keys = {"compute_seconds", "communication_seconds",
                               "optimizer_seconds", "data_seconds"};
  constexpr std::array names = {"forward and backward", "communication not hidden",
                                "optimizer", "data"};
  const std::string title = "Time of a step by phase" + (named ? ": " + run.name : "");
  Plot plot{title, "step", "seconds", {}, restarts({run}), true, true};
  io::Series rest = run.metrics.of("step_seconds");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const io::Series& series = run.metrics.of(keys[i]);
    for (const auto& [step, value] : series)
      if (const auto found = rest.find(step); found != rest.end()) found->second -= value;
    plot.lines.push_back({names[i], points_of(series)});
  }
  for (auto& [step, value] : rest) value = std::max(value, 0.0);
  plot.lines.push_back({"other", points_of(rest)});
  return {file, title, plot};
}

std::vector<Figure> figures(const std::vector<Run>& runs) {
  std::vector<Figure> out;
  out.push_back(figure(runs, "loss", "Loss", "per token",
                       {{"loss", "training"}, {"validation_loss", "validation"}}, false));
  out.push_back(figure(runs, "gradient-norm", "Gradient norm", "before clipping",
                       {{"grad_norm", "norm"}}, true));
  out.push_back(figure(runs, "learning-rate", "Learning rate", "",
                       {{"learning_rate", "learning rate"}}, true));
  out.push_back(figure(runs, "tokens-per-second", "Tokens per second", "all ranks",
                       {{"tokens_per_second", "tokens/s"}}, true));
  out.push_back(figure(runs, "memory", "Memory", "bytes, the rank that held most",
                       {{"memory_peak_bytes", "peak"}}, true));
  for (std::size_t i = 0; i < runs.size(); ++i)
    out.push_back(phases(runs[i], runs.size() > 1 ? format("time-{}", i) : "time",
                         runs.size() > 1));
  return out;
}

std::string number(const std::optional<double>& value) {
  if (!value) return "-";
  return std::abs(*value) < 1e9 ? fixed(*value, 4) : exact(*value);
}

std::string mean_of(const io::Series& series) {
  double mean = 0;
  for (const auto& [step, value] : series)
    mean += value / static_cast<double>(series.size());  // no sum that could overflow
  return series.empty() ? "-" : human_count(mean);
}

std::string summary(const std::vector<Run>& runs) {
  std::string out =
      "| Run | State | Step | Loss | Validation loss | Tokens/s, mean | Restarts |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const auto& run : runs) {
    const std::string note = run.state.note.empty() ? "" : ": " + run.state.note;
    out +=
        format("| {} | {}{} | {} of {} | {} | {} | {} | {} |\n", markdown_text(run.name),
               name_of(run.state.phase), markdown_text(note), run.state.step,
               run.state.steps > 0 ? std::to_string(run.state.steps) : "?",
               number(run.state.loss), number(run.state.validation_loss),
               mean_of(run.metrics.of("tokens_per_second")), restarts({run}).size());
  }
  return out;
}

std::string history(const Run& run) {
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

std::string page(const std::vector<Run>& runs, const std::vector<Figure>& figures,
                 const std::string& prefix) {
  std::string out = "# Report";
  for (std::size_t i = 0; i < runs.size() && runs.size() <= 4; ++i)
    out += (i ? ", " : ": ") + markdown_text(runs[i].name);
  out += "\n\n" + summary(runs);
  for (const auto& run : runs) {
    if (run.metrics.last_step() == 0)
      out +=
          format("\nIn {}: metrics.jsonl has no step.\n", markdown_text(run.directory));
    if (run.metrics.damaged > 0)
      out += format("\nIn {}: {} lines of metrics.jsonl are damaged and left out.\n",
                    markdown_text(run.directory), run.metrics.damaged);
  }
  if (!restarts(runs).empty()) out += "\nDashed lines are restarts.\n";
  for (const auto& figure : figures) {
    const std::string title = markdown_text(figure.title);
    out += format("\n## {}\n\n![{}]({})\n", title, title,
                  markdown_path(prefix + figure.file + ".svg"));
  }
  for (const auto& run : runs) out += history(run);
  return out;
}

// The page and its plots replace files: never a device, a pipe or a link of that name.
void require_page(const std::string& output, const std::string& stem) {
  require(!stem.empty() && stem != "-", Status::command_line,
          "--output '{}': a file is expected; its plots are written beside it", output);
  struct stat status {};
  if (::lstat(output.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  fail(Status::cannot_create,
       "--output {}: is {}; the page and its plots beside it are files: name a new one",
       output,
       S_ISDIR(status.st_mode)   ? "a directory"
       : S_ISLNK(status.st_mode) ? "a link"
                                 : "no regular file");
}

void write_report(const Arguments& arguments) {
  std::vector<Run> runs;
  for (const auto& word : arguments.words()) runs.push_back(read_run(word));
  const std::string output =
      arguments.text("--output", runs.front().directory + "/report.md");
  const auto slash = output.find_last_of('/');
  const std::string directory =
      slash == std::string::npos ? "" : output.substr(0, slash + 1);
  std::string stem = output.substr(directory.size());
  require_page(output, stem);
  if (stem.ends_with(".md")) stem.resize(stem.size() - 3);
  const auto plots = figures(runs);
  if (!directory.empty()) io::make_directories(without_slashes(directory));
  const Directory folder(parent_of(output));
  const auto name_of = [&](const auto& plot) { return stem + "-" + plot.file + ".svg"; };
  folder.require_file(last_name_of(output));  // before any of them is replaced
  for (const auto& plot : plots) folder.require_file(name_of(plot));
  for (const auto& plot : plots)
    io::write_text_atomically(folder, name_of(plot), svg(plot.plot));
  io::write_text_atomically(folder, last_name_of(output), page(runs, plots, stem + "-"));
  log::info("{} and {} plots", output, plots.size());
}

}  // namespace

int report(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] {
    constexpr Option options[] = {{"--output", true}};
    arguments.parse("trireme report RUN [RUN ...] [--output FILE]", options, 1, 1000);
    if (world.rank() == 0) write_report(arguments);
  });
  return 0;
}

}  // namespace trireme::app
