// Profiler: windows of steps, from their first to their last.
// SPDX-License-Identifier: Apache-2.0
#include "train/profiler.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <string>

#include "base/device_profiler.hpp"
#include "base/log.hpp"
#include "base/timeline.hpp"
#include "io/checkpoint_manifest.hpp"

namespace trireme::train {
namespace {

double seconds_since_1970() {
  using Clock = std::chrono::system_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// "rank-0003.json".
std::string file_name(int rank) {
  const std::string digits = std::to_string(rank);
  const std::size_t zeros = digits.size() < 4 ? 4 - digits.size() : 0;
  return "rank-" + std::string(zeros, '0') + digits + ".json";
}

}  // namespace

// Times of a trace count from one moment for all ranks, so that traces of several ranks
// fit together as well as the clocks of their nodes do.
Profiler::Profiler(comm::World& world, const config::RunConfig& config, Device device)
    : world_(world),
      config_(config),
      device_(device),
      window_(config::parse_profile(config.metrics.profile)) {
  if (!window_.steps.empty())
    run_start_ = world.max(world.rank() == 0 ? std::floor(seconds_since_1970()) : 0.0);
}

Profiler::~Profiler() {
  if (records_) end();
}

void Profiler::before_step(std::int64_t step) {
  if (!records_ && window_.has_step(step) && window_.has_rank(world_.rank())) begin(step);
}

void Profiler::after_step(std::int64_t step) {
  if (!records_) return;
  if (!window_.has_step(step + 1)) return finish();
  if (timeline().size() > Timeline::capacity / 2) write();
}

void Profiler::begin(std::int64_t step) {
  records_ = true;
  try {
    const Directory folder =
        Directory(config_.run.directory).make("profile").make(io::step_name(step));
    const double age = seconds_since_1970() - run_start_;
    file_.emplace(
        folder, file_name(world_.rank()),
        io::TimelineFile::Process{
            .rank = world_.rank(),
            .ranks = world_.size(),
            .host = world_.host(),
            .zero_ns = Timeline::now() - static_cast<std::int64_t>(age * 1e9),
            .zero = format("{} s after 1970", static_cast<std::int64_t>(run_start_))});
  } catch (const Error& error) {
    leave_out(error.what());
  }
  timeline().begin();
  Stream(device_).synchronize();  // what came before is not part of the window
  start_device_profiler(device_);
}

void Profiler::finish() {
  if (!records_) return;
  Stream(device_).synchronize();
  stop_device_profiler(device_);
  end();
}

// Asks nothing of a GPU, which may be what has failed.
void Profiler::end() {
  records_ = false;
  timeline().end();
  write();
  if (file_) {
    try {
      file_->close(timeline().dropped());
    } catch (const Error& error) {
      leave_out(error.what());
    }
  }
  file_.reset();
  timeline().release();
}

// What the timeline holds goes into the file.
void Profiler::write() {
  std::array<Timeline::Event, 64> block;
  std::size_t seen = 0;
  try {
    do {
      for (;;) {
        const std::size_t count = timeline().copy(seen, block);
        if (count == 0) break;
        seen += count;
        for (std::size_t i = 0; file_ && i < count; ++i) file_->write(block[i]);
      }
    } while (!timeline().clear(seen));
  } catch (const Error& error) {
    leave_out(error.what());
  }
}

void Profiler::leave_out(const char* why) {
  file_.reset();
  log::error(format("trireme: warning: no profile of rank {}: {}", world_.rank(), why));
}

}  // namespace trireme::train
