// Interruptions.
// SPDX-License-Identifier: Apache-2.0
#include "train/interruptions.hpp"

#include <algorithm>
#include <utility>

#include "comm/save_request.hpp"
#include "comm/world.hpp"
#include "io/run_directory.hpp"

namespace trireme::train {
namespace {

constexpr double assumed_rate = 250e6;  // bytes a second of a node

// Thirty years at most: a job without an end may have one beyond the clock's range.
std::chrono::steady_clock::duration seconds(double value) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(std::min(value, 1e9)));
}

}  // namespace

bool stops(Wish wish) { return wish > Wish::save; }

std::string_view reason(Wish wish) {
  switch (wish) {
    case Wish::none: return "no reason";
    case Wish::save: return "a request";
    case Wish::stop_file: return "a file named stop";
    case Wish::job_end: return "the job's end";
    case Wish::time_limit: return "run.time_limit";
    case Wish::signal: return "a signal";
  }
  return "";
}

double predicted_save_seconds(double bytes, double nodes) {
  return bytes / (assumed_rate * std::max(nodes, 1.0));
}

Interruptions::Interruptions(std::string directory, double time_limit,
                             const BatchJob& job, bool leads)
    : directory_(std::move(directory)), leads_(leads) {
  const auto now = Clock::now();
  if (time_limit > 0) time_limit_ = now + seconds(time_limit);
  if (job.seconds_left) {
    const double left = std::max(*job.seconds_left, 0.0);
    job_end_ = now + seconds(left - std::min(60.0, left / 10));
  }
}

Wish Interruptions::wish(const TimeNeeded& needed) const {
  if (comm::stop_requested()) return Wish::signal;
  const bool save = comm::take_save_request();
  if (!leads_) return save ? Wish::save : Wish::none;
  if (reached(time_limit_, needed.seconds())) return Wish::time_limit;
  if (reached(job_end_, needed.seconds())) return Wish::job_end;
  if (asked_by_file("stop")) return Wish::stop_file;
  return save || asked_by_file("save") ? Wish::save : Wish::none;
}

void Interruptions::fulfilled(Wish wish) const {
  if (!leads_ || wish == Wish::none) return;
  if (stops(wish)) io::remove_request(directory_, "stop");
  io::remove_request(directory_, "save");
}

bool Interruptions::asked_by_file(const char* name) const {
  return io::is_asked_by_file(directory_, name);
}

bool Interruptions::reached(const std::optional<Clock::time_point>& end,
                            double seconds_needed) {
  return end && Clock::now() + seconds(seconds_needed) > *end;
}

}  // namespace trireme::train
