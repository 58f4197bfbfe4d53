// Which checkpoint of a run's own to go on from.
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_choice.hpp"

#include <algorithm>
#include <limits>
#include <sstream>
#include <vector>

#include "base/log.hpp"
#include "base/path.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/checkpoint_removal.hpp"
#include "io/run_directory.hpp"

namespace trireme::train {
namespace {

// Opens a checkpoint and compares its digests, which the ranks share out. What the lowest
// rank that finds damage says, on every rank; "" for a whole checkpoint. What cannot be
// read may be whole: nobody may pass it over, and write another in its place.
std::string damage(comm::World& world, const std::string& path,
                   std::shared_ptr<io::CheckpointReader>& reader) {
  reader.reset();
  std::string wrong;
  try {
    reader = std::make_shared<io::CheckpointReader>(world, path);
    wrong = first_damage(world, *reader);
  } catch (const io::AgreedNewerFormat&) {
    throw;
  } catch (const comm::Agreed& error) {
    wrong = error.what();
    if (error.status() != Status::bad_content)
      throw comm::Agreed(
          error.status(),
          format("{}; this checkpoint may be whole: start again once it can be read, or "
                 "move it away to go on from the one before it",
                 wrong));
  }
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
                        const std::vector<std::int64_t>& steps,
                        const FindElsewhere& find) {
  std::vector<std::string> passed_over;
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t step : steps) {
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

// Whether a checkpoint lies in the folder of the run's own, by whatever path it was
// named.
bool lies_in(const std::string& folder, const std::string& checkpoint) {
  if (parent_of(checkpoint) == folder) return true;  // without a look at either
  const std::string own = io::absolute_path(folder);
  return io::absolute_path(parent_of(checkpoint)) == own ||
         parent_of(io::absolute_path(checkpoint)) == own;
}

// Opens what checkpoint.resume names. The name is asked for only behind a failure: each
// look at it costs a request to the file system, on every start.
std::shared_ptr<io::CheckpointReader> open_named(comm::World& world,
                                                 const std::string& path) {
  try {
    return std::make_shared<io::CheckpointReader>(world, path);
  } catch (const comm::Agreed& error) {
    if (error.status() != Status::missing_input) throw;
    world.agree([&] {
      require(world.rank() != 0 || is_there(path), Status::missing_input,
              "checkpoint.resume = \"{}\": nothing has that name: write \"auto\", "
              "\"never\" or the path of a checkpoint",
              path);
    });
    throw;
  }
}

// What checkpoint.resume names, all digests compared. A run that began from somebody
// else's checkpoint and has later ones of its own by now goes on from these, for that is
// what the same command means after a stop: then there is no reader, or that of the
// copies of a run that has none on the disk yet.
ChosenCheckpoint named(comm::World& world, const config::RunConfig& config,
                       const std::string& folder, const std::vector<std::int64_t>& steps,
                       const FindElsewhere& find) {
  ChosenCheckpoint from;
  from.path = config.checkpoint.resume;
  from.reader = open_named(world, from.path);
  const std::int64_t step = from.reader->info().step;
  const std::int64_t newest = steps.empty() ? 0 : steps.front();
  bool own = false;
  world.agree([&] {
    if (world.rank() == 0) own = lies_in(folder, from.reader->directory());
    require(newest <= step || !own, Status::cannot_create,
            "'{}' is step {}, but '{}' holds later steps of this run, up to {}: give "
            "another run.directory, or remove those",
            from.path, step, config.run.directory, io::step_name(newest));
  });
  if (newest > step) return {};
  from.of_other = world.max(world.rank() == 0 && !own ? 1 : 0) > 0;
  if (from.of_other) {
    constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
    ChosenCheckpoint copies = look_elsewhere(find, step, last, {});
    if (copies.reader) return copies;
  }
  const std::string wrong = first_damage(world, *from.reader);
  if (!wrong.empty()) throw comm::Agreed(Status::bad_content, wrong);
  return from;
}

}  // namespace

ChosenCheckpoint chosen_checkpoint(comm::World& world, const config::RunConfig& config,
                                   Repair repair, const FindElsewhere& find) {
  const std::string& resume = config.checkpoint.resume;
  const std::string folder = config.run.directory + "/checkpoints";
  const std::vector<std::int64_t> steps = checkpoint_steps(world, folder, repair);
  world.agree([&] {
    require(
        resume != "never" || steps.empty(), Status::cannot_create,
        "checkpoint.resume = \"never\", but '{}' holds checkpoints of an earlier run; "
        "use \"auto\" to go on with it, or another run.directory",
        folder);
  });
  ChosenCheckpoint from;
  if (resume == "never") return from;
  if (resume != "auto") {
    if (repair == Repair::yes) repair_latest(world, folder, steps, resume);
    from = named(world, config, folder, steps, find);
  }
  bool own = from.of_copies;
  if (!from.reader) {
    from = repair == Repair::yes ? newest_whole_checkpoint(world, folder, steps, find)
                                 : choose(world, folder, steps, find);
    own = from.reader != nullptr;
  }
  if (own && resume != "auto")
    log::info("resume    goes on from its own step {}, begun from {}",
              from.reader->info().step, resume);
  if (!from.reader) return from;
  const io::CheckpointInfo& info = from.reader->info();
  world.agree([&] {
    require(config.checkpoint.load_on_mesh_change || info.mesh == config.parallel.mesh,
            Status::bad_content,
            "'{}' was written on another mesh, and checkpoint.load_on_mesh_change = "
            "false",
            from.path);
  });
  return from;
}

std::vector<std::int64_t> checkpoint_steps(comm::World& world,
                                           const std::string& directory, Repair repair) {
  std::ostringstream list;
  std::vector<std::string> names;
  if (repair == Repair::yes) names = io::clear_leftovers(world, directory);
  world.agree([&] {
    if (world.rank() != 0) return;
    for (const std::int64_t step :
         repair == Repair::yes ? io::steps_among(names) : io::steps_in(directory))
      list << step << ' ';
  });
  std::istringstream words(world.broadcast(list.str()));
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; words >> step;) steps.push_back(step);
  std::reverse(steps.begin(), steps.end());
  return steps;
}

std::string first_damage(comm::World& world, io::CheckpointReader& reader) {
  std::string mine;
  world.agree([&] { mine = reader.damage(world.rank(), world.size()); });
  if (world.max(mine.empty() ? 0 : 1) == 0) return "";
  std::string first;
  for (const auto& text : world.gather_text(mine))
    if (first.empty()) first = text;
  return world.broadcast(first);
}

ChosenCheckpoint newest_whole_checkpoint(comm::World& world, const std::string& directory,
                                         const std::vector<std::int64_t>& steps,
                                         const FindElsewhere& find) {
  ChosenCheckpoint chosen = choose(world, directory, steps, find);
  if (chosen.of_copies) {
    repair_latest(world, directory, steps);
  } else if (chosen.reader) {
    world.agree([&] {
      if (world.rank() == 0) io::point_latest(directory, last_name_of(chosen.path));
    });
  }
  return chosen;
}

void repair_latest(comm::World& world, const std::string& directory,
                   const std::vector<std::int64_t>& steps, const std::string& next) {
  world.agree([&] {
    if (world.rank() != 0 || steps.empty()) return;
    const std::string newest = io::step_name(steps.front());
    const std::string below = directory + "/";
    const auto names = {below + newest, below + io::latest_name, directory,
                        parent_of(directory)};
    if (std::find(names.begin(), names.end(), next) != names.end() &&
        io::latest_target(directory) == newest)
      return;
    const auto whole = std::find_if(steps.begin(), steps.end(), [&](std::int64_t step) {
      return io::why_not_all_there(below + io::step_name(step)).empty();
    });
    if (whole != steps.end()) io::point_latest(directory, io::step_name(*whole));
  });
}

}  // namespace trireme::train
