// Writes the metrics of runs as one HDF5 file.
// SPDX-License-Identifier: Apache-2.0
#include "app/report_hdf5.hpp"

#include <limits>
#include <set>

#include "app/result_path.hpp"
#include "base/counted.hpp"
#include "base/directory.hpp"
#include "base/log.hpp"
#include "base/path.hpp"
#include "base/temporary_files.hpp"
#include "io/hdf5_file.hpp"

namespace trireme::app {
namespace {

constexpr const char* format_name = "trireme metrics";
constexpr std::int64_t format_version = 1;
// HDF5 keeps attributes of a group in a header of 64 KiB.
constexpr std::size_t longest_setting = 1000;

template <class T>
void write_column(io::Hdf5File& file, const std::string& name, std::vector<T>& values,
                  DType dtype) {
  file.write(name, TensorView(values.data(), dtype, {std::ssize(values)}));
}

std::set<std::int64_t> steps_of(const io::MetricsHistory& metrics) {
  std::set<std::int64_t> steps;
  for (const auto& [key, series] : metrics.series)
    for (const auto& [step, value] : series) steps.insert(step);
  return steps;
}

void write_run(io::Hdf5File& file, const std::string& group, const ReportedRun& run) {
  const std::set<std::int64_t> all = steps_of(run.metrics);
  std::vector<std::int64_t> steps(all.begin(), all.end());
  write_column(file, group + "/step", steps, DType::i64);
  for (const auto& [key, series] : run.metrics.series) {
    if (key == "step" || key.find('/') != key.npos) continue;
    std::vector<double> values;
    values.reserve(steps.size());
    for (const std::int64_t step : steps) {
      const auto found = series.find(step);
      values.push_back(found == series.end() ? std::numeric_limits<double>::quiet_NaN()
                                             : found->second);
    }
    write_column(file, group + "/" + key, values, DType::f64);
  }
  file.write_attribute(group, "directory", run.directory);
  for (const io::DeckSetting& setting : run.settings)
    file.write_attribute(group, setting.key, setting.text(longest_setting));
}

}  // namespace

void check_metrics_file(const std::string& output) {
  check_replaced(output, {hdf5_beginning}, "HDF5 file of metrics");
  if (!is_there(output)) return;
  const io::Hdf5File file(output, io::Hdf5File::Mode::read);
  require(file.has_attribute("/", "format") &&
              file.text_attribute("/", "format") == format_name,
          Status::cannot_create,
          "{}: is an HDF5 file of something else, which metrics would replace: name "
          "another one, or remove it",
          output);
}

void write_metrics_file(const std::vector<ReportedRun>& runs, const std::string& output) {
  const Directory folder(parent_of(output));
  const std::string name = last_name_of(output), unfinished = name + ".partial";
  folder.require_file(name);
  TemporaryFile whole_or_nothing(folder.path_of(unfinished));
  io::Hdf5File file(folder, unfinished);
  file.write_attribute("/", "format", format_name);
  file.write_attribute("/", "version", format_version);
  std::set<std::string> names;
  for (const ReportedRun& run : runs) {
    std::string group = run.name;
    for (int number = 2; !names.insert(group).second; ++number)
      group = format("{}-{}", run.name, number);
    write_run(file, group, run);
  }
  file.close();
  whole_or_nothing.place([&] { folder.rename(unfinished, name); });
  log::info("wrote {}: the metrics of {} in HDF5", output,
            counted(std::ssize(runs), "run"));
}

}  // namespace trireme::app
