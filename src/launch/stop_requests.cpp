// StopRequests: signals, files, time limits, and the end of a batch job.
// SPDX-License-Identifier: Apache-2.0
#include "launch/stop_requests.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "comm/stop_signals.hpp"
#include "io/run_directory.hpp"

namespace trireme::launch {
namespace {

constexpr double assumed_rate = 250e6;  // bytes a second of a node
// Slurm warns up to a minute earlier than it was told to, five minutes before the end in
// the scripts of jobs/.
constexpr double warning_seconds = 360;
// The warning reaches the other ranks at about the same time. Those that have it by the
// same request as the leading rank are heard of at the next; where the end of a step came
// in between, at the one after that.
constexpr auto same_warning = std::chrono::seconds(10);
constexpr int requests_of_same_warning = 2;

// Thirty years at most: a job without an end may have one beyond the clock's range.
std::chrono::steady_clock::duration seconds(double value) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(std::min(value, 1e9)));
}

}  // namespace

bool saves(StopRequest request) { return request >= StopRequest::save; }
bool stops(StopRequest request) { return request > StopRequest::save; }

std::string_view reason(StopRequest request) {
  switch (request) {
    case StopRequest::none: return "no reason";
    case StopRequest::end_warning: return "a warning of the job's end";
    case StopRequest::save: return "a request";
    case StopRequest::stop_file: return "a file named stop";
    case StopRequest::job_end: return "the job's end";
    case StopRequest::time_limit: return "run.time_limit";
    case StopRequest::signal: return "a signal";
  }
  return "";
}

double predicted_save_seconds(double bytes, double nodes) {
  return bytes / (assumed_rate * std::max(nodes, 1.0));
}

StopRequests::StopRequests(std::string directory, double time_limit, const BatchJob& job,
                           bool leads, std::function<std::optional<double>()> ask,
                           std::function<Clock::time_point()> clock)
    : directory_(std::move(directory)),
      leads_(leads),
      ask_(std::move(ask)),
      clock_(std::move(clock)) {
  if (time_limit > 0) time_limit_ = clock_() + seconds(time_limit);
  if (job.seconds_left) set_job_end(*job.seconds_left);
}

void StopRequests::set_job_end(double seconds_left) {
  const double left = std::max(seconds_left, 0.0);
  job_end_ = clock_() + seconds(left - std::min(60.0, left / 10));
}

bool StopRequests::is_batch_warning(int own) {
  const auto now = clock_();
  own_warnings_ += own;
  if (own_warnings_ > 1) return false;
  if (warned_)
    return requests_since_ <= requests_of_same_warning || now - *warned_ < same_warning;
  if (!job_end_ || *job_end_ - now > seconds(warning_seconds)) return false;
  if (const auto left = ask_()) set_job_end(*left);
  warned_ = clock_();
  log::info(
      "SIGUSR1 with {} of the job left: the run goes on until a checkpoint just "
      "fits; another SIGUSR1 stops it at once",
      human_seconds(std::chrono::duration<double>(*job_end_ - *warned_).count()));
  return true;
}

StopRequest StopRequests::request(const TimeNeeded& needed, StopRequest before) {
  if (comm::stop_requested()) return StopRequest::signal;
  const bool save = comm::take_save_request();
  const int warnings = comm::take_end_warnings();
  if (!leads_)
    return save           ? StopRequest::save
           : warnings > 0 ? StopRequest::end_warning
                          : StopRequest::none;
  if (warned_) ++requests_since_;
  if ((warnings > 0 || before == StopRequest::end_warning) && !is_batch_warning(warnings))
    return StopRequest::signal;
  if (reached(time_limit_, needed.seconds())) return StopRequest::time_limit;
  if (reached(job_end_, needed.seconds())) return StopRequest::job_end;
  if (asked_by_file("stop")) return StopRequest::stop_file;
  return save || asked_by_file("save") ? StopRequest::save : StopRequest::none;
}

void StopRequests::fulfilled(StopRequest request) const {
  if (!leads_ || !saves(request)) return;
  if (stops(request)) io::remove_request(directory_, "stop");
  io::remove_request(directory_, "save");
}

bool StopRequests::asked_by_file(const char* name) const {
  return io::is_asked_by_file(directory_, name);
}

bool StopRequests::reached(const std::optional<Clock::time_point>& end,
                           double seconds_needed) const {
  return end && clock_() + seconds(seconds_needed) > *end;
}

}  // namespace trireme::launch
