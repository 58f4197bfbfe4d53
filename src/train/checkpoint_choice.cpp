// Which checkpoint of a run's own to go on from.
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_choice.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/log.hpp"
#include "io/checkpoint_folder.hpp"
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

// What was passed over, and what is taken instead.
void warn_of_damage(const std::vector<std::string>& passed_over,
                    const std::string& taken) {
  for (const auto& wrong : passed_over)
    log::warn("{}; going back to the checkpoint before it: {} will be taken", wrong,
              taken);
}

// The name of the newest whole checkpoint; "" when there is none.
std::string choose(comm::World& world, const std::string& directory) {
  std::vector<std::string> passed_over;
  for (const std::int64_t step : steps(world, directory)) {
    const std::string name = io::step_name(step);
    const std::string wrong = damage(world, directory + "/" + name);
    if (wrong.empty()) {
      warn_of_damage(passed_over, name);
      return name;
    }
    passed_over.push_back(wrong);
  }
  if (!passed_over.empty())
    throw comm::Agreed(
        Status::bad_content,
        format("{}; no checkpoint of '{}' is whole: remove them to start anew, or name "
               "another in checkpoint.resume",
               passed_over.front(), directory));
  return "";
}

void tidy(comm::World& world, const std::string& directory, const std::string& newest) {
  world.agree([&] {
    if (world.rank() == 0) io::tidy(directory, newest);
  });
}

}  // namespace

std::string newest_whole_checkpoint(comm::World& world, const std::string& directory) {
  tidy(world, directory, "");
  const std::string newest = choose(world, directory);
  if (newest.empty()) return "";
  tidy(world, directory, newest);
  return directory + "/" + newest;
}

void tidy_checkpoints(comm::World& world, const std::string& directory) {
  tidy(world, directory, "");
  world.agree([&] {
    if (world.rank() != 0) return;
    auto steps = io::steps_in(directory);
    while (
        !steps.empty() &&
        !io::why_incomplete(directory + "/" + io::step_name(steps.back()), 0, 0).empty())
      steps.pop_back();
    if (!steps.empty()) io::tidy(directory, io::step_name(steps.back()));
  });
}

}  // namespace trireme::train
