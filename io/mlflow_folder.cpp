// MlflowFolder: meta.yaml, params, tags and metrics of a run as MLflow's file store.
// SPDX-License-Identifier: Apache-2.0
#include "io/mlflow_folder.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/system_reason.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "io/lines.hpp"
#include "io/run_directory.hpp"

namespace trireme::io {
namespace {

constexpr const char* experiment = "trireme";
constexpr const char* experiment_id = "774724951200000001";
constexpr int running = 1, scheduled = 2, finished = 3, failed = 4;  // RunStatus
constexpr std::chrono::seconds most_wait{10};

std::int64_t milliseconds_now() { return std::llround(wall_time() * 1e3); }

// A text of YAML: JSON's form of it, but that YAML writes a character beyond the first
// 65,536 in one piece where JSON has two surrogates.
std::string yaml(const std::string& text) {
  const std::string json =
      nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  const auto half = [&](std::size_t at) {
    return parse_hexadecimal(std::string_view(json).substr(at + 2, 4)).value();
  };
  std::string out;
  for (std::size_t i = 0; i < json.size();) {
    const std::size_t bytes = json[i] != '\\' ? 1 : json[i + 1] == 'u' ? 6 : 2;
    if (bytes == 6 && half(i) >= 0xd800 && half(i) < 0xe000) {
      const auto character = static_cast<unsigned>(0x10000 + ((half(i) - 0xd800) << 10) +
                                                   (half(i + 6) - 0xdc00));
      std::array<char, 11> escape{};
      std::snprintf(escape.data(), escape.size(), "\\U%08x", character);
      out += escape.data();
      i += 12;
    } else {
      out += json.substr(i, bytes);
      i += bytes;
    }
  }
  return out;
}

// When the run began for the first time, as its meta.yaml says; 0 where none does.
std::int64_t start_of(const Directory& folder) {
  constexpr std::string_view key = "start_time: ";
  if (!folder.is_file("meta.yaml")) return 0;
  LineReader lines(folder, "meta.yaml");
  while (const auto line = lines.next())
    if (line->starts_with(key))
      return parse_number<std::int64_t>(line->substr(key.size())).value_or(0);
  return 0;
}

std::string file_uri(const std::string& path) {
  constexpr std::string_view digits = "0123456789ABCDEF", plain = "-_.~/";
  std::string out = "file://";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && std::isalnum(byte)) || plain.find(c) != std::string_view::npos)
      out += c;
    else
      out += std::string("%") + digits[byte >> 4] + digits[byte & 15];
  }
  return out;
}

void write_experiment(const Directory& folder) {
  if (folder.has("meta.yaml")) return;
  const std::string now = std::to_string(milliseconds_now());
  replace_text(folder, "meta.yaml",
               "artifact_location: " + yaml(file_uri(absolute_path(folder.path()))) +
                   "\ncreation_time: " + now + "\nexperiment_id: '" + experiment_id +
                   "'\nlast_update_time: " + now +
                   "\nlifecycle_stage: active\nname: " + experiment + "\n",
               Durability::unsynced);
}

// Removes the points after a step, and a torn last line, from all files of metrics.
void drop_after(const Directory& folder, std::int64_t last) {
  for (const auto& name : folder.names()) {
    if (!folder.is_file(name)) {
      if (!folder.is_link(name)) drop_after(folder.open(name), last);
      continue;
    }
    LineReader lines(folder, name);
    std::string kept;
    bool changed = false;
    while (const auto line = lines.next()) {
      const auto step = parse_number<std::int64_t>(line->substr(line->rfind(' ') + 1));
      if (lines.whole() && step && *step <= last)
        kept += *line + "\n";
      else
        changed = true;
    }
    if (changed) replace_text(folder, name, kept, Durability::unsynced);
  }
}

}  // namespace

MlflowFolder::MlflowFolder(const TrackedRun& run)
    : name_(one_line(run.name)), start_(milliseconds_now()) {
  make_directories(run.store);
  const Directory store = Directory(run.store).make("mlruns");
  const Directory all = store.make(experiment_id);
  write_experiment(all);
  // The last of this directory's runs, or one after it.
  const std::string where = absolute_path(run.directory);
  const auto id = [&](int n) { return digest_of(format("{} {}", where, n)); };
  int n = 0;
  while (all.has(id(n + 1))) ++n;
  if (n == 0 || run.resumed == 0) ++n;
  id_ = id(n);
  const Directory folder = all.make(id_);
  path_ = folder.path();
  for (const char* name : {"params", "tags", "metrics", "artifacts"}) folder.make(name);
  if (const std::int64_t first = start_of(folder); first > 0) start_ = first;
  drop_after(folder.open("metrics"), run.resumed);
  write_meta(running, 0);
  put("tags", "mlflow.runName", name_);
  put("tags", "mlflow.source.name", "trireme");
  put("tags", "mlflow.source.type", "JOB");
  put("tags", "trireme.version", std::string(build_info().version));
  put("tags", "trireme.directory", one_line(where));
  constexpr std::size_t most_characters = 6000;  // of a parameter
  for (const DeckSetting& setting : run.settings)
    put("params", setting.key, one_line(setting.text(most_characters)));
  put("artifacts", "deck.toml", run.deck);
}

void MlflowFolder::put(const std::string& folder, const std::string& name,
                       const std::string& text) const {
  replace_text(Directory(path_).open(folder), name, text, Durability::unsynced);
}

void MlflowFolder::write_meta(int status, double end_time) const {
  const auto end = static_cast<std::int64_t>(end_time);
  replace_text(Directory(path_), "meta.yaml",
               "artifact_uri: " + yaml(file_uri(absolute_path(path_) + "/artifacts")) +
                   "\nend_time: " + (end > 0 ? std::to_string(end) : "null") +
                   "\nentry_point_name: ''\nexperiment_id: '" + experiment_id +
                   "'\nlifecycle_stage: active\nrun_id: " + id_ +
                   "\nrun_name: " + yaml(name_) +
                   "\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: " +
                   std::to_string(start_) + "\nstatus: " + std::to_string(status) +
                   "\ntags: []\nuser_id: ''\n",
               Durability::unsynced);
}

void MlflowFolder::write(const Record& record) {
  const StepScalars all = scalars_of(record);
  const std::string now = std::to_string(milliseconds_now());
  for (const auto& [tag, value] : all.scalars)
    waiting_[tag] += format("{} {} {}\n", now, exact(value), all.step);
  const bool saved = std::any_of(
      all.scalars.begin(), all.scalars.end(),
      [](auto& scalar) { return scalar.first == tag_of("checkpoint_seconds"); });
  if (saved || Clock::now() - flushed_ >= most_wait) flush();
}

void MlflowFolder::write_text(std::int64_t step, const std::string& tag,
                              const std::string& text) {
  const Directory folder = Directory(path_).open("artifacts").make("texts");
  std::string name = tag + format("-{}.txt", step);
  std::replace(name.begin(), name.end(), '/', '-');
  replace_text(folder, name, text + "\n", Durability::unsynced);
}

void MlflowFolder::flush() {
  for (auto& [tag, lines] : waiting_) {
    if (lines.empty()) continue;
    // A name with '/' lies in folders.
    Directory folder = Directory(path_).open("metrics");
    std::string name = tag;
    for (auto slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/')) {
      folder = folder.make(name.substr(0, slash));
      name = name.substr(slash + 1);
    }
    const Descriptor file = folder.open_to_append(name);
    if (!write_all(file.get(), lines))
      fail(Status::io, "{}: write failed: {}", folder.path_of(name),
           system_reason(errno));
    lines.clear();
  }
  flushed_ = Clock::now();
}

void MlflowFolder::finish(RunEnd end) {
  flush();
  const int status = end == RunEnd::done      ? finished
                     : end == RunEnd::stopped ? scheduled
                                              : failed;
  write_meta(status, end == RunEnd::stopped ? 0 : wall_time() * 1e3);
}

}  // namespace trireme::io
