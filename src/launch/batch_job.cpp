// batch_job(): what the batch system says of the job that this process is in.
// SPDX-License-Identifier: Apache-2.0
#include "launch/batch_job.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>

#include "base/environment.hpp"
#include "base/format.hpp"
#include "base/number.hpp"
#include "base/run_command.hpp"

namespace trireme::launch {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 12 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

double now() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// What squeue calls this job; "" outside of one. The number of the task that bears its
// array's number would name all tasks.
std::string name_for_squeue() {
  const std::string id = environment_text("SLURM_JOB_ID");
  const std::string array = environment_text("SLURM_ARRAY_JOB_ID");
  const std::string task = environment_text("SLURM_ARRAY_TASK_ID");
  if (is_number(array) && is_number(task)) return array + "_" + task;
  return is_number(id) ? id : "";
}

// A controller that does not answer must not hold up the job.
std::optional<double> ask_squeue() {
  const std::string id = name_for_squeue();
  if (id.empty()) return {};
  constexpr double patience_seconds = 10;
  const auto answer = output_of({"squeue", "-h", "-j", id, "-o", "%L"}, patience_seconds);
  if (!answer) return {};
  return parse_time_left(std::string_view(*answer).substr(0, answer->find('\n')));
}

std::optional<double> told_at_start() {
  if (const std::string end = environment_text("SLURM_JOB_END_TIME"); is_number(end))
    return parse_number<double>(end).value() - now();
  return {};
}

std::optional<double> seconds_left() {
  if (const auto told = told_at_start()) return told;
  return ask_squeue();
}

}  // namespace

std::optional<double> parse_time_left(std::string_view text) {
  const auto dash = text.find('-');
  const bool has_days = dash != std::string_view::npos;
  if (has_days && !is_number(text.substr(0, dash))) return {};
  double seconds = has_days ? parse_number<double>(text.substr(0, dash)).value() * 24 : 0;
  std::string_view rest = has_days ? text.substr(dash + 1) : text;
  int fields = 0;
  for (bool more = true; more; ++fields) {
    const auto colon = rest.find(':');
    const std::string_view field = rest.substr(0, colon);
    if (!is_number(field)) return {};
    const double value = parse_number<double>(field).value();
    seconds = fields == 0 ? seconds + value : seconds * 60 + value;
    more = colon != std::string_view::npos;
    if (more) rest.remove_prefix(colon + 1);
  }
  if (fields > 3 || (has_days && fields != 3)) return {};
  return seconds;
}

std::optional<double> time_left_now() {
  if (const auto left = ask_squeue()) return left;
  return told_at_start();
}

std::string BatchJob::describe() const {
  return id + (restarts > 0 ? format(" (restart {})", restarts) : std::string()) +
         (attempts > 0 ? format(" (start {} in its allocation)", attempts + 1)
                       : std::string()) +
         (seconds_left ? ", ends in " + human_seconds(std::max(*seconds_left, 0.0))
                       : ", with no end that is known");
}

int batch_restarts() {
  return std::max(0,
                  parse_number<int>(environment_text("SLURM_RESTART_COUNT")).value_or(0));
}

int script_attempts() {
  return std::max(0, parse_number<int>(environment_text("TRIREME_ATTEMPT")).value_or(0));
}

BatchJob batch_job() {
  BatchJob job;
  job.id = environment_text("SLURM_JOB_ID");
  job.restarts = batch_restarts();
  job.attempts = script_attempts();
  job.seconds_left = seconds_left();
  return job;
}

}  // namespace trireme::launch
