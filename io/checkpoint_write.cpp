// Writing a checkpoint: shards by all ranks, then one rank makes it whole and visible.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/log.hpp"
#include "io/checkpoint.hpp"
#include "io/checkpoint_layout.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/files.hpp"
#include "io/host_copy.hpp"

namespace trireme::io {
namespace {

// What is not complete, or not any more, has a name that starts with a dot.
constexpr std::string_view temporary_prefix = ".step-";
constexpr std::string_view trash_prefix = ".trash-";
constexpr std::string_view new_latest_name = ".latest.tmp";

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

std::int64_t size_of_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    fail(Status::io, "{}: {}", path, std::strerror(errno));
  return status.st_size;
}

std::string shard_name(int rank) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "shard-%05d.h5", rank);
  return text.data();
}

// False when something could not be removed.
bool remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return !error;
}

void rename_path(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail(Status::cannot_create, "{}: cannot be renamed to '{}': {}", from, to,
         std::strerror(errno));
}

// What earlier crashes left behind.
void remove_leftovers(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& name : names_in(directory))
    if (name.starts_with(temporary_prefix) || name.starts_with(trash_prefix) ||
        name == new_latest_name)
      names.push_back(directory + "/" + name);
  for (const auto& name : names)
    require(remove_tree(name), Status::cannot_create,
            "{}: left by an earlier run, cannot be removed", name);
}

FileEntry entry_of(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  return {name, size_of_file(path), file_digest(path)};
}

// Checks a box and lists it; a box that this rank writes gets a dataset in the shard.
void add_box(ShardReport& report, std::map<std::string, int>& uses,
             const TensorBox& box) {
  const Shape& extent = box.data.shape();
  require(box.whole.rank() > 0 && box.whole.rank() == extent.rank() &&
              box.begin.rank() == extent.rank(),
          "checkpoint: '{}' of {} has a box of {} at {}", box.path, box.whole, extent,
          box.begin);
  std::string source;
  if (box.write && extent.elements() > 0) {
    const int use = uses[box.path]++;
    source = "/" + box.path + (use == 0 ? "" : format("@{}", use));
  }
  report.boxes.push_back(
      {box.path, source, box.data.dtype(), box.whole, box.begin, extent});
}

ShardReport write_shard(const std::string& directory, int rank,
                        const std::vector<TensorBox>& boxes) {
  ShardReport report;
  std::map<std::string, int> uses;
  for (const auto& box : boxes) add_box(report, uses, box);
  if (uses.empty()) return report;
  const std::string name = shard_name(rank);
  Hdf5File file(directory + "/" + name, Hdf5File::Mode::create);
  HostCopy host;
  for (std::size_t i = 0; i < boxes.size(); ++i)
    if (!report.boxes[i].source.empty())
      file.write(report.boxes[i].source, host.read(boxes[i].data));
  file.close();
  report.file = entry_of(directory, name);
  return report;
}

void write_whole(const std::string& path, const CheckpointInfo& info,
                 const std::map<std::string, TensorLayout>& layout) {
  Hdf5File file(path, Hdf5File::Mode::create);
  file.write_attribute("/", "format_version", info.format_version);
  file.write_attribute("/", "program_version", info.program_version);
  file.write_attribute("/", "step", info.step);
  file.write_attribute("/", "tokens", info.tokens);
  file.write_attribute("/", "mesh", mesh_text(info.mesh));
  file.write_attribute("/", "deck", info.deck);
  for (const auto& [tensor, part] : layout)
    file.create_virtual("/" + tensor, part.dtype, part.whole, part.pieces);
  file.close();
}

// The files that make the shards one checkpoint; everything is on disk when it returns.
void complete(const std::string& directory, const CheckpointInfo& info,
              const std::vector<ShardReport>& reports) {
  const auto layout = make_layout(reports);
  write_whole(directory + "/" + whole_name, info, layout);
  Manifest manifest;
  manifest.info = info;
  manifest.files.push_back(entry_of(directory, whole_name));
  for (const auto& report : reports)
    if (!report.file.name.empty()) manifest.files.push_back(report.file);
  for (const auto& [tensor, part] : layout)
    manifest.tensors.push_back({tensor, part.dtype, part.whole, ""});
  write_text_atomically(directory + "/" + manifest_name, manifest_text(manifest));
}

// Gives the checkpoint its name. A damaged one that bore it is set aside first.
void publish(const std::string& directory, const std::string& temporary,
             const std::string& name) {
  const std::string path = directory + "/" + name;
  const std::string trash = format("{}/{}{}", directory, trash_prefix, name);
  const bool replaces = exists(path);
  if (replaces) rename_path(path, trash);
  rename_path(temporary, path);
  sync_directory(directory);
  if (replaces && !remove_tree(trash))
    log::warn("{}: what stood here before cannot be removed", trash);
}

void point_latest(const std::string& directory, const std::string& name) {
  if (latest_target(directory) == name) return;
  const std::string path = directory + "/" + latest_name;
  const std::string temporary = format("{}/{}", directory, new_latest_name);
  if (::symlink(name.c_str(), temporary.c_str()) != 0)
    fail(Status::cannot_create, "{}: cannot be made: {}", path, std::strerror(errno));
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail(Status::cannot_create, "{}: cannot be replaced: {}", path, std::strerror(error));
  }
  sync_directory(directory);
}

// The new checkpoint stands, so that a failure here is no reason to end the run.
void remove_oldest(const std::string& directory, std::int64_t step, int keep) {
  std::vector<std::int64_t> complete;
  for (const std::int64_t other : steps_in(directory))
    if (other != step && why_incomplete(directory + "/" + step_name(other), 0, 0).empty())
      complete.push_back(other);
  const auto kept = static_cast<std::size_t>(keep - 1);
  for (std::size_t i = 0; i + kept < complete.size(); ++i) {
    const std::string name = step_name(complete[i]);
    const std::string path = directory + "/" + name;
    const std::string trash = format("{}/{}{}", directory, trash_prefix, name);
    if (::rename(path.c_str(), trash.c_str()) != 0 || !remove_tree(trash))
      log::warn("{}: this old checkpoint cannot be removed: {}", path,
                std::strerror(errno));
  }
}

// Is the step there already, every file as it was written? All ranks share the work and
// get the same answer.
bool stands_already(comm::World& world, const std::string& path) {
  const bool found = world.rank() == 0 && exists(path);
  if (world.max(found ? 1 : 0) == 0) return false;
  const std::string wrong = why_incomplete(path, world.rank(), world.size());
  return world.max(wrong.empty() ? 0 : 1) == 0;
}

// 1. a directory for what is written; 2. the shards; 3. what makes them whole; 4. its
// name.
void write_step(comm::World& world, const std::string& directory,
                const std::string& temporary, const CheckpointInfo& info,
                const std::vector<TensorBox>& boxes) {
  world.agree([&] {
    if (world.rank() == 0) make_directories(temporary);
  });
  ShardReport report;
  world.agree([&] { report = write_shard(temporary, world.rank(), boxes); });
  const auto texts = world.gather_text(report.text());
  world.agree([&] {
    if (world.rank() != 0) return;
    std::vector<ShardReport> reports;
    for (const auto& text : texts) reports.push_back(ShardReport::parse(text));
    complete(temporary, info, reports);
    publish(directory, temporary, step_name(info.step));
  });
}

}  // namespace

void write_checkpoint(comm::World& world, const std::string& directory,
                      const CheckpointInfo& info, const std::vector<TensorBox>& boxes,
                      int keep) {
  require(info.step >= 0 && keep >= 0, "checkpoint of step {}, keep {}", info.step, keep);
  const std::string name = step_name(info.step);
  world.agree([&] {
    if (world.rank() != 0) return;
    make_directories(directory);
    remove_leftovers(directory);
  });
  if (!stands_already(world, directory + "/" + name)) {
    const std::string temporary = format("{}/.{}.tmp", directory, name);
    try {
      write_step(world, directory, temporary, info, boxes);
    } catch (const comm::Agreed&) {
      if (world.rank() == 0) remove_tree(temporary);
      world.barrier();  // no rank reports before that is done
      throw;
    }
  }
  world.agree([&] {
    if (world.rank() != 0) return;
    point_latest(directory, name);
    if (keep > 0) remove_oldest(directory, info.step, keep);
  });
}

}  // namespace trireme::io
