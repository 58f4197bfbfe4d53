// note_start().
// SPDX-License-Identifier: Apache-2.0
#include "train/restarts.hpp"

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <vector>

#include "base/error.hpp"
#include "io/files.hpp"

namespace trireme::train {
namespace {

constexpr auto file_name = "restarts";
constexpr std::size_t most_starts = 3;  // from one step

struct Start {
  int restart = 0;
  std::int64_t step = 0;
};

// Of this job; a file of another job, or one that cannot be read, tells nothing.
std::vector<Start> earlier_starts(const Directory& folder, const BatchJob& job) {
  if (!folder.has(file_name)) return {};
  std::istringstream lines(io::read_text(folder, file_name, 1 << 20));
  std::vector<Start> starts;
  std::string id;
  for (Start start; lines >> id >> start.restart >> start.step;)
    if (id == job.id && start.restart < job.restarts) starts.push_back(start);
  return starts;
}

}  // namespace

void note_start(const std::string& directory, const BatchJob& job, std::int64_t step) {
  if (job.id.empty()) return;
  const Directory folder(directory);
  auto starts = earlier_starts(folder, job);
  std::size_t in_vain = 0;  // in a row, up to now
  while (in_vain < starts.size() && starts[starts.size() - 1 - in_vain].step == step)
    ++in_vain;
  require(in_vain < most_starts, Status::resources,
          "job {} has started {} times from step {} without reaching a checkpoint, and "
          "stops here: look for the cause in its log (a hang? a time limit that is too "
          "short?), lower checkpoint.every, and submit it anew",
          job.id, in_vain, step);
  starts.push_back({job.restarts, step});
  std::string text;
  for (const Start& start : starts)
    text += format("{} {} {}\n", job.id, start.restart, start.step);
  io::write_text_atomically(folder, file_name, text);
  // From here on this record counts; until here the job script did.
  if (const char* const counted = std::getenv("TRIREME_STARTS")) ::unlink(counted);
}

}  // namespace trireme::train
