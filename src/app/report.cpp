// `trireme report RUN ...`: a page with plots of one or more runs, or of a sweep.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "app/app.hpp"
#include "app/report_hdf5.hpp"
#include "app/report_pages.hpp"
#include "app/result_path.hpp"
#include "base/counted.hpp"
#include "base/directory.hpp"
#include "base/log.hpp"
#include "base/path.hpp"
#include "io/files.hpp"

namespace trireme::app {
namespace {

// The page and its plots replace files: never a device, a pipe or a link of that name.
void require_page(const std::string& output) {
  const std::string stem = output.ends_with('/') ? "" : last_name_of(output);
  require(!stem.empty() && stem != "-", Status::command_line,
          "--output '{}': a file is expected", output);
  struct stat status {};
  if (::lstat(output.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  fail(Status::cannot_create, "--output {}: is {}; a page is a file: name a new one",
       output,
       S_ISDIR(status.st_mode)   ? "a directory"
       : S_ISLNK(status.st_mode) ? "a link"
                                 : "no regular file");
}

// The page in Markdown, and beside it its plots.
void write_markdown(const Report& report, const std::string& output) {
  std::string stem = last_name_of(output);
  if (stem.ends_with(".md")) stem.resize(stem.size() - 3);
  const Directory folder(parent_of(output));
  const auto name_of = [&](const Figure& figure) {
    return stem + "-" + figure.file + ".svg";
  };
  folder.require_file(last_name_of(output));  // before any of them is replaced
  for (const auto& figure : report.figures) folder.require_file(name_of(figure));
  for (const auto& figure : report.figures)
    io::write_text_atomically(folder, name_of(figure), svg(figure.plot));
  io::write_text_atomically(folder, last_name_of(output),
                            markdown_page(report, stem + "-"));
  log::info("{} and {} plots", output, report.figures.size());
}

// Where the page goes: into the run's directory, or the sweep's.
std::string folder_of(const std::string& word, const ReportedRun& first) {
  const std::string path = without_slashes(word);
  if (is_folder(path)) return is_there(path + "/sweep.toml") ? path : first.directory;
  return path.ends_with(".toml") ? parent_of(path) : first.directory;
}

void write_metrics(const Arguments& arguments, const std::string& output) {
  require(!arguments.has("--markdown"), Status::command_line,
          "--markdown makes a page, and --output '{}' names an HDF5 file", output);
  require_page(output);
  check_metrics_file(output);
  const std::vector<ReportedRun> runs = read_runs(arguments.words(), KeysRead::all);
  io::make_directories(parent_of(output));
  write_metrics_file(runs, output);
}

void write_report(const Arguments& arguments) {
  std::string output = arguments.text("--output", "");
  if (output.ends_with(".h5")) return write_metrics(arguments, output);
  Report report;
  report.runs = read_runs(arguments.words());
  const bool markdown = arguments.has("--markdown") || output.ends_with(".md");
  if (output.empty())
    output = folder_of(arguments.words().front(), report.runs.front()) +
             (markdown ? "/report.md" : "/report.html");
  require_page(output);
  check_replaced(output, {markdown ? "# Report" : "<!DOCTYPE html>"}, "page of a report");
  report.figures = report_figures(report.runs);
  for (const auto& run : report.runs) report.totals.push_back(totals_of(run));
  report.losses = final_losses(report.runs);
  for (const auto& run : report.runs)
    for (const auto& note : notes_of(run)) log::warn("{}: {}", run.directory, note);
  report.differing = differing_keys(report.runs, report.losses);
  io::make_directories(parent_of(output));
  if (markdown) return write_markdown(report, output);
  const Directory folder(parent_of(output));
  io::write_text_atomically(folder, last_name_of(output), html_page(report));
  log::info("wrote {}: {}, {}; a browser opens it, without a server", output,
            counted(static_cast<std::int64_t>(report.runs.size()), "run"),
            counted(static_cast<std::int64_t>(report.figures.size()), "plot"));
}

}  // namespace

int report(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] {
    constexpr Option options[] = {{"--output", true}, {"--markdown", false}};
    arguments.parse("trireme report RUN|SWEEP ... [--markdown] [--output FILE]", options,
                    1, 1000);
    if (world.rank() == 0) write_report(arguments);
  });
  return 0;
}

}  // namespace trireme::app
