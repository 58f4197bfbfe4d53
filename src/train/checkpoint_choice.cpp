// Which checkpoint of a run's own to go on from.
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_choice.hpp"

#include <algorithm>
#include <limits>
#include <sstream>
#include <vector>

#include "base/log.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/checkpoint_manifest.hpp"

namespace trireme::train {
namespace {

// Opens a checkpoint and compares its digests, which the ranks share out. What the lowest
// rank that finds damage says, on every rank; "" for a whole checkpoint.
std::string damage(comm::World& world, const std::string& path,
                   std::shared_ptr<io::CheckpointReader>& reader) {
  reader.reset();
  try {
    reader = std::make_shared<io::CheckpointReader>(world, path);
  } catch (const io::AgreedNewerFormat&) {
    throw;
  } catch (const comm::Agreed& error) {
    return error.what();
  }
  const std::string wrong = first_damage(world, *reader);
  if (!wrong.empty()) reader.reset();
  return wrong;
}

// What was passed over, and what is taken instead.
void warn_of_damage(const std::vector<std::string>& passed_over,
                    const std::string& taken) {
  for (const auto& wrong : passed_over)
    log::warn("{}; going back to the checkpoint before it: {} will be taken", wrong,
              taken);
}

// The newest elsewhere after a step of the directory, or after all of them.
ChosenCheckpoint look_elsewhere(const FindElsewhere& find, std::int64_t after,
                                std::int64_t last,
                                const std::vector<std::string>& passed_over) {
  ChosenCheckpoint chosen;
  if (find) chosen = find(after, last);
  if (!chosen.reader) return chosen;
  for (const auto& wrong : passed_over)
    log::warn("{}; {} will be taken", wrong, chosen.path);
  return chosen;
}

// The newest whole checkpoint; none: no reader.
ChosenCheckpoint choose(comm::World& world, const std::string& directory,
                        const FindElsewhere& find) {
  std::vector<std::string> passed_over;
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t step : checkpoint_steps(world, directory)) {
    ChosenCheckpoint chosen = look_elsewhere(find, step, last, passed_over);
    if (chosen.reader) return chosen;
    last = step;
    const std::string name = io::step_name(step);
    chosen.path = directory + "/" + name;
    const std::string wrong = damage(world, chosen.path, chosen.reader);
    if (wrong.empty()) {
      warn_of_damage(passed_over, name);
      return chosen;
    }
    passed_over.push_back(wrong);
  }
  const ChosenCheckpoint chosen = look_elsewhere(find, 0, last, passed_over);
  if (chosen.reader) return chosen;
  if (!passed_over.empty())
    throw comm::Agreed(
        Status::bad_content,
        format("{}; no checkpoint of '{}' is whole: remove them to start anew, or name "
               "another in checkpoint.resume",
               passed_over.front(), directory));
  return {};
}

void tidy(comm::World& world, const std::string& directory, const std::string& newest) {
  world.agree([&] {
    if (world.rank() == 0) io::tidy(directory, newest);
  });
}

}  // namespace

ChosenCheckpoint chosen_checkpoint(comm::World& world, const config::RunConfig& config,
                                   bool mend, const FindElsewhere& find) {
  const std::string& resume = config.checkpoint.resume;
  const std::string folder = config.run.directory + "/checkpoints";
  const std::vector<std::int64_t> steps = checkpoint_steps(world, folder);
  world.agree([&] {
    require(
        resume != "never" || steps.empty(), Status::cannot_create,
        "checkpoint.resume = \"never\", but '{}' holds checkpoints of an earlier run; "
        "use \"auto\" to go on with it, or another run.directory",
        folder);
  });
  ChosenCheckpoint from;
  if (resume == "never") return from;
  if (resume == "auto") {
    from =
        mend ? newest_whole_checkpoint(world, folder, find) : choose(world, folder, find);
  } else {
    if (mend) tidy_checkpoints(world, folder);
    from.path = resume;
    from.reader = std::make_shared<io::CheckpointReader>(world, resume);
    const std::string wrong = first_damage(world, *from.reader);
    if (!wrong.empty()) throw comm::Agreed(Status::bad_content, wrong);
  }
  if (!from.reader) return from;
  const io::CheckpointInfo& info = from.reader->info();
  world.agree([&] {
    require(config.checkpoint.load_on_mesh_change || info.mesh == config.parallel.mesh,
            Status::bad_content,
            "'{}' was written on another mesh, and checkpoint.load_on_mesh_change = "
            "false",
            from.path);
    const std::int64_t newest = steps.empty() ? 0 : steps.front();
    require(resume == "auto" || newest <= info.step, Status::cannot_create,
            "'{}' is step {}, but '{}' holds later steps of this run, up to {}: give "
            "another run.directory, or remove those",
            from.path, info.step, config.run.directory, io::step_name(newest));
  });
  return from;
}

std::vector<std::int64_t> checkpoint_steps(comm::World& world,
                                           const std::string& directory) {
  std::ostringstream list;
  if (world.rank() == 0)
    for (const std::int64_t step : io::steps_in(directory)) list << step << ' ';
  std::istringstream words(world.broadcast(list.str()));
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; words >> step;) steps.push_back(step);
  std::reverse(steps.begin(), steps.end());
  return steps;
}

std::string first_damage(comm::World& world, io::CheckpointReader& reader) {
  const std::string mine = reader.damage(world.rank(), world.size());
  if (world.max(mine.empty() ? 0 : 1) == 0) return "";
  std::string first;
  for (const auto& text : world.gather_text(mine))
    if (first.empty()) first = text;
  return world.broadcast(first);
}

ChosenCheckpoint newest_whole_checkpoint(comm::World& world, const std::string& directory,
                                         const FindElsewhere& find) {
  tidy(world, directory, "");
  ChosenCheckpoint chosen = choose(world, directory, find);
  if (chosen.of_copies) {
    tidy_checkpoints(world, directory);
  } else if (chosen.reader) {
    world.agree([&] {
      if (world.rank() == 0) io::point_latest(directory, last_name_of(chosen.path));
    });
  }
  return chosen;
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
