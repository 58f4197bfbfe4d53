// Which checkpoint of a run's own to go on from.
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_choice.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/log.hpp"
#include "io/checkpoint_manifest.hpp"

namespace trireme::train {
namespace {

// As rank 0 sees them, newest first.
std::vector<std::int64_t> steps(comm::World& world, const std::string& directory) {
  std::ostringstream list;
  if (world.rank() == 0)
    for (const std::int64_t step : io::steps_in(directory)) list << step << ' ';
  std::istringstream words(world.broadcast(list.str()));
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; words >> step;) steps.push_back(step);
  std::reverse(steps.begin(), steps.end());
  return steps;
}

// What the lowest rank that finds damage says, on every rank; "" for a whole checkpoint.
std::string damage(comm::World& world, const std::string& path) {
  std::string wrong;
  world.agree([&] { wrong = io::why_incomplete(path, world.rank(), world.size()); });
  std::string first;
  for (const auto& text : world.gather_text(wrong))
    if (first.empty()) first = text;
  return world.broadcast(first);
}

}  // namespace

std::string newest_whole_checkpoint(comm::World& world, const std::string& directory) {
  std::string newest;
  for (const std::int64_t step : steps(world, directory)) {
    const std::string path = directory + "/" + io::step_name(step);
    const std::string wrong = damage(world, path);
    if (wrong.empty()) return path;
    if (newest.empty()) newest = wrong;
    log::warn("{}; going back to the checkpoint before it", wrong);
  }
  if (!newest.empty())
    throw comm::Agreed(
        Status::bad_content,
        format("{}; no checkpoint of '{}' is whole: remove them to start anew, or name "
               "another in checkpoint.resume",
               newest, directory));
  return "";
}

}  // namespace trireme::train
