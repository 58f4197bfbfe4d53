// Reading runs for a report, and what follows from their numbers.
// SPDX-License-Identifier: Apache-2.0
#include "app/report_runs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "app/sweep_manifest.hpp"
#include "base/directory.hpp"
#include "base/log.hpp"
#include "base/path.hpp"
#include "io/files.hpp"

namespace trireme::app {
namespace {

constexpr std::int64_t most_deck_bytes = 16 << 20;

bool is_of_reports(const std::string& key) {
  static const std::set<std::string> plain = {"loss",
                                              "validation_loss",
                                              "validation_accuracy",
                                              "grad_norm",
                                              "learning_rate",
                                              "loss_scale",
                                              "tokens",
                                              "tokens_per_second",
                                              "mfu",
                                              "idle_share",
                                              "expert_imbalance",
                                              "memory_peak_bytes",
                                              "wall_time",
                                              "rewards_margin",
                                              "rewards_accuracy",
                                              "skipped",
                                              "device_joules_per_token",
                                              "node_joules_per_token",
                                              "expert_rounds_mean",
                                              "expert_rounds_max"};
  if (plain.contains(key)) return true;
  if (key.starts_with("communication."))
    return key.ends_with(".exposed_seconds") || key.ends_with(".calls");
  return key.ends_with("_seconds") || key.starts_with("memory.") ||
         key.starts_with("expert_load.");
}

std::vector<io::DeckSetting> read_settings(const std::string& directory) {
  const std::string path = directory + "/deck.toml";
  if (!is_there(path)) return {};
  try {
    return io::deck_settings(io::read_text(path, most_deck_bytes));
  } catch (const Error& error) {
    log::warn("{}", error.what());
    return {};
  }
}

// Whether a folder is one of a run, which may have ended before its first step.
bool is_run(const std::string& directory) {
  const auto holds = [&](const char* name) { return is_there(directory + "/" + name); };
  return holds("metrics.jsonl") || holds("deck.toml") || holds("status.toml");
}

ReportedRun read_run(const std::string& directory, KeysRead keys) {
  ReportedRun run;
  run.directory = without_slashes(directory);
  require(is_folder(run.directory), Status::missing_input,
          "{}: no such run; give the run.directory of its deck", run.directory);
  run.name = last_name_of(run.directory);
  const auto wants = [keys](const std::string& key) {
    return keys == KeysRead::all || is_of_reports(key);
  };
  run.metrics = io::read_metrics(run.directory + "/metrics.jsonl", wants);
  run.state = run_state(run.directory);
  run.settings = read_settings(run.directory);
  try {
    if (auto status = io::read_run_status(run.directory))
      run.starts = std::move(status->starts);
  } catch (const Error& error) {
    log::warn("{}", error.what());
  }
  return run;
}

// The points of a sweep that have begun.
void add_points(const std::string& manifest_path, KeysRead keys,
                std::vector<ReportedRun>& runs) {
  const auto manifest = SweepManifest::read(manifest_path);
  const std::size_t before = runs.size();
  for (std::size_t i = 0; i < manifest.points.size(); ++i) {
    const std::string directory = manifest.run_directory(static_cast<std::int64_t>(i));
    if (!is_folder(directory)) continue;
    ReportedRun& run = runs.emplace_back(read_run(directory, keys));
    run.overrides = manifest.points[i].overrides;
  }
  require(runs.size() > before, Status::missing_input,
          "{}: no point of this sweep has begun", manifest_path);
}

// Where a file has no sum of all, as old ones: the sum over groups and collectives, if
// they are known of each.
std::optional<io::Series> exposed_of(const ReportedRun& run) {
  if (const io::Series& all = run.metrics.series_of("exposed_seconds"); !all.empty())
    return all;
  constexpr std::string_view calls = ".calls";
  for (const auto& [key, series] : run.metrics.series) {
    if (!key.starts_with("communication.") || !key.ends_with(calls)) continue;
    const std::string row = key.substr(0, key.size() - calls.size());
    if (run.metrics.series_of(row + ".exposed_seconds").empty()) return std::nullopt;
  }
  io::Series sum;
  for (const auto& [group, waited] : exposed_by_group(run))
    for (const auto& [step, value] : waited) sum[step] += value;
  return sum;
}

double value_at(const io::Series& series, std::int64_t step) {
  const auto found = series.find(step);
  return found == series.end() || !std::isfinite(found->second) ? 0 : found->second;
}

std::optional<double> tail_mean(const io::Series& losses) {
  const std::size_t count = std::max<std::size_t>(1, losses.size() / 20);
  double sum = 0;
  std::size_t taken = 0;
  for (auto at = losses.rbegin(); at != losses.rend() && taken < count; ++at, ++taken)
    sum += at->second;
  if (taken == 0) return {};
  return sum / static_cast<double>(taken);
}

}  // namespace

std::vector<std::int64_t> ReportedRun::restarts() const {
  std::vector<std::int64_t> steps;
  for (const auto& start : starts)
    if (start.step > 0 && start.step < metrics.last_step()) steps.push_back(start.step);
  return steps;
}

std::vector<ReportedRun> read_runs(const std::vector<std::string>& words, KeysRead keys) {
  std::vector<ReportedRun> runs;
  for (const auto& given : words) {
    const std::string word = without_slashes(given);
    if (is_folder(word) && is_there(word + "/sweep.toml"))
      add_points(word + "/sweep.toml", keys, runs);
    else if (!is_folder(word) && word.ends_with(".toml") && is_there(word))
      add_points(word, keys, runs);
    else
      runs.push_back(read_run(word, keys));
  }
  require(std::any_of(runs.begin(), runs.end(),
                      [](const ReportedRun& run) { return is_run(run.directory); }),
          Status::missing_input,
          "{}: holds no metrics.jsonl, so it is no run; give the run.directory of a deck",
          runs.front().directory);
  return runs;
}

RunTotals totals_of(const ReportedRun& run) {
  RunTotals totals;
  const io::Series& seconds = run.metrics.series_of("step_seconds");
  totals.steps = static_cast<std::int64_t>(seconds.size());
  for (const auto& [step, value] : seconds) totals.seconds += value;
  if (const io::Series& tokens = run.metrics.series_of("tokens"); !tokens.empty())
    totals.tokens = tokens.rbegin()->second;
  for (const auto& [step, value] : run.metrics.series_of("checkpoint_blocking_seconds")) {
    totals.waited_seconds += value;
    ++totals.checkpoints;
  }
  if (!run.starts.empty())
    totals.rank_hours =
        static_cast<double>(run.starts.back().ranks) * totals.seconds / 3600;
  const io::Series& rates = run.metrics.series_of("tokens_per_second");
  for (const auto& [step, value] : rates)  // no sum that could overflow
    totals.tokens_per_second += value / static_cast<double>(rates.size());
  const io::Series& mfu = run.metrics.series_of("mfu");
  for (const auto& [step, value] : mfu) {
    totals.mfu += value / static_cast<double>(mfu.size());
    totals.best_mfu = std::max(totals.best_mfu, value);
  }
  const io::Series& of_gpus = run.metrics.series_of("device_joules_per_token");
  const io::Series& energy =
      of_gpus.empty() ? run.metrics.series_of("node_joules_per_token") : of_gpus;
  for (const auto& [step, value] : energy)
    totals.joules = totals.joules.value_or(0) +
                    value * value_at(rates, step) * value_at(seconds, step);
  return totals;
}

// `communication_seconds` is waiting by definition; what rank 0 waited for messages
// beyond it lies in forward and backward, and at the last in norm and update.
StepParts step_parts(const ReportedRun& run) {
  const std::optional<io::Series> known = exposed_of(run);
  const io::Series exposed = known.value_or(io::Series());
  StepParts parts;
  parts.knows_waits = known.has_value();
  for (const auto& [step, total] : run.metrics.series_of("step_seconds")) {
    const auto seconds_of = [&](const char* key) {
      return std::max(0.0, value_at(run.metrics.series_of(key), step));
    };
    const double waits = seconds_of("communication_seconds");
    double hidden_in_others = std::max(0.0, value_at(exposed, step) - waits);
    double compute = seconds_of("compute_seconds"),
           optimizer = seconds_of("optimizer_seconds");
    const double in_compute = std::min(compute, hidden_in_others);
    compute -= in_compute;
    hidden_in_others -= in_compute;
    const double in_optimizer = std::min(optimizer, hidden_in_others);
    optimizer -= in_optimizer;
    const double data = seconds_of("data_seconds");
    const double all_waits = waits + in_compute + in_optimizer;
    parts.compute[step] = compute;
    parts.exposed[step] = all_waits;
    parts.optimizer[step] = optimizer;
    parts.data[step] = data;
    parts.other[step] = std::max(0.0, total - compute - all_waits - optimizer - data);
  }
  return parts;
}

std::map<std::string, io::Series> exposed_by_group(const ReportedRun& run) {
  constexpr std::string_view begin = "communication.";
  std::map<std::string, io::Series> groups;
  for (const auto& [key, series] : run.metrics.series) {
    if (!key.starts_with(begin) || !key.ends_with(".exposed_seconds")) continue;
    auto& sum =
        groups[key.substr(begin.size(), key.find('.', begin.size()) - begin.size())];
    for (const auto& [step, value] : series) sum[step] += value;
  }
  return groups;
}

std::vector<std::optional<double>> final_losses(const std::vector<ReportedRun>& runs) {
  const bool validated = std::all_of(runs.begin(), runs.end(), [](const auto& run) {
    return run.state.validation_loss.has_value();
  });
  std::vector<std::optional<double>> losses;
  for (const auto& run : runs)
    losses.push_back(validated ? run.state.validation_loss
                               : tail_mean(run.metrics.series_of("loss")));
  return losses;
}

namespace {

void explain(DifferingKey& key, const std::vector<std::optional<double>>& losses) {
  std::map<std::string, std::vector<double>> groups;
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (!losses[i] || !std::isfinite(*losses[i])) continue;
    groups[key.values[i]].push_back(*losses[i]);
    sum += *losses[i];
    ++count;
  }
  if (count == 0) return;
  const double mean = sum / static_cast<double>(count);
  double between = 0, all = 0;
  for (const auto& [value, own] : groups) {
    double group_sum = 0;
    for (const double loss : own) {
      group_sum += loss;
      all += (loss - mean) * (loss - mean);
    }
    const double group_mean = group_sum / static_cast<double>(own.size());
    between +=
        static_cast<double>(own.size()) * (group_mean - mean) * (group_mean - mean);
    key.groups.push_back(
        {value, own.size(), group_mean, *std::min_element(own.begin(), own.end())});
  }
  std::sort(key.groups.begin(), key.groups.end(),
            [](const auto& a, const auto& b) { return a.mean < b.mean; });
  if (count >= 3 && groups.size() > 1 && groups.size() < count && all > 0)
    key.share = between / all;
}

}  // namespace

std::vector<DifferingKey> differing_keys(
    const std::vector<ReportedRun>& runs,
    const std::vector<std::optional<double>>& losses) {
  constexpr std::array own_names = {"run.name", "run.directory", "run.time_limit"};
  constexpr std::array own_sections = {"metrics.", "checkpoint.", "debug."};
  std::map<std::string, std::vector<std::string>> values;
  std::vector<std::string> order;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    for (const auto& setting : runs[r].settings) {
      const auto [at, is_new] =
          values.try_emplace(setting.key, std::vector<std::string>(runs.size()));
      if (is_new) order.push_back(setting.key);
      at->second[r] = setting.text(80);
    }
  }
  std::vector<DifferingKey> differing;
  for (const auto& key : order) {
    const auto& own = values.at(key);
    if (std::find(own_names.begin(), own_names.end(), key) != own_names.end() ||
        std::any_of(own_sections.begin(), own_sections.end(),
                    [&](const char* section) { return key.starts_with(section); }) ||
        std::all_of(own.begin(), own.end(), [&](auto& v) { return v == own.front(); }))
      continue;
    explain(differing.emplace_back(DifferingKey{key, own, {}, {}}), losses);
  }
  std::stable_sort(differing.begin(), differing.end(), [](const auto& a, const auto& b) {
    return a.share.value_or(-1) > b.share.value_or(-1);
  });
  return differing;
}

bool splits_alike(const DifferingKey& a, const DifferingKey& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if ((a.values[i] == a.values[j]) != (b.values[i] == b.values[j])) return false;
  return true;
}

}  // namespace trireme::app
