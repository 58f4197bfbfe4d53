// Profiler: records chosen steps of chosen ranks, and writes them as traces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "base/device.hpp"
#include "comm/world.hpp"
#include "config/profile_window.hpp"
#include "config/run_config.hpp"
#include "io/timeline_file.hpp"

namespace trireme::train {

// Steps of metrics.profile that follow each other are a window. Its memory is taken when
// it begins and given back when it ends, where the run does, if that comes first. A trace
// that cannot be written is left out with a warning.
class Profiler {
 public:
  // device: of this rank. The other two outlive this. Collective over the world.
  Profiler(comm::World& world, const config::RunConfig& config, Device device);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Step `step` is about to begin, and is over with all that follows on it.
  void before_step(std::int64_t step);
  void after_step(std::int64_t step);
  // No step comes after the last.
  void finish();

 private:
  void begin(std::int64_t step);
  void end();
  void write();
  void leave_out(const char* why);

  comm::World& world_;
  const config::RunConfig& config_;
  Device device_;
  config::ProfileWindow window_;
  double run_start_ = 0;  // seconds since 1970, the same on all ranks
  bool records_ = false;
  std::optional<io::TimelineFile> file_;  // while it records, unless it was left out
};

}  // namespace trireme::train
