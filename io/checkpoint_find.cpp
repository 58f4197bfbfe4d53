// What a path means as a checkpoint: itself, or the newest of a folder.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_find.hpp"

#include <algorithm>
#include <vector>

#include "base/path.hpp"

namespace trireme::io {
namespace {

// By what it holds, for a run's directory may be named as a checkpoint is. A checkpoint
// that lacks its manifest is one all the same: it is damaged.
bool is_step_directory(const std::string& path, const std::vector<std::string>& names) {
  const auto has = [&](const char* name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  for (const char* name : {manifest_name, index_name, whole_name})
    if (has(name)) return true;
  const bool has_shard = std::any_of(names.begin(), names.end(), [](const auto& name) {
    return name.starts_with("shard-") && name.ends_with(".h5");
  });
  return step_of(last_name_of(path)) && (has_shard || !has("checkpoints"));
}

// A directory of a checkpoint, not looked into yet.
struct Place {
  std::string directory;
  bool newest = false;  // of a folder
};

// A directory with a step's name was complete when it got it, so the highest step is the
// newest. "": there is none.
Place newest_below(const std::string& directory, const std::vector<std::string>& names) {
  const std::vector<std::int64_t> steps = steps_among(names);
  if (steps.empty()) return {};
  return {directory + "/" + step_name(steps.back()), true};
}

// f(directory) -> result. Damage to the newest of a folder is reported, not passed over:
// going back in silence would lose steps.
template <class F>
auto read_place(const Place& place, const F& f) {
  try {
    return f(place.directory);
  } catch (const NewerFormat&) {
    throw;
  } catch (const Error& error) {
    if (!place.newest || error.status() != Status::bad_content) throw;
    fail(Status::bad_content,
         "{}; remove that checkpoint, or name an earlier one by its own path",
         error.what());
  }
}

// What a path means, looking into each folder on the way once.
Place place_of(const std::string& given) {
  const std::string path = without_slashes(given);
  const std::vector<std::string> names = names_in(path);
  require(!names.empty() || is_there(path), Status::missing_input,
          "{}: there is no checkpoint here, nor anything of that name", path);
  if (is_step_directory(path, names)) return {path};
  Place found = newest_below(path, names);
  const std::string below = path + "/checkpoints";
  if (found.directory.empty()) found = newest_below(below, names_in(below));
  require(!found.directory.empty(), Status::missing_input,
          "{}: there is no checkpoint here", path);
  return found;
}

}  // namespace

OpenedCheckpoint find_opened(const std::string& path, bool sizes) {
  const auto open = [&](const std::string& directory) {
    return open_checkpoint(directory, sizes);
  };
  const std::string name = last_name_of(path);
  if (step_of(name) || name == latest_name) {
    try {
      return open(path);
    } catch (const NewerFormat&) {
      throw;
    } catch (const Error&) {
      // Then it may be a run's directory, or is not there: the usual way says what is
      // wrong.
    }
  }
  return read_place(place_of(path), open);
}

std::string find_checkpoint(const std::string& path) {
  const Place place = place_of(path);
  if (place.newest) read_place(place, [](const auto& own) { return read_manifest(own); });
  return place.directory;
}

NamedCheckpoint checkpoint_info(const std::string& path) {
  return read_place(place_of(path), [](const std::string& directory) -> NamedCheckpoint {
    return {directory, read_info(Directory::to_read(directory))};
  });
}

}  // namespace trireme::io
