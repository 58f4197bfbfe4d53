// The manifest of a checkpoint, and the names of checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_manifest.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/directory.hpp"
#include "base/number.hpp"
#include "base/system_reason.hpp"
#include "io/checkpoint_manifest_json.hpp"
#include "io/checkpoint_verify.hpp"
#include "io/plain_file.hpp"

namespace trireme::io {
namespace {

constexpr std::int64_t manifest_limit_bytes = std::int64_t{1} << 30;

bool is_shard(std::string_view name) {
  return name.starts_with("shard-") && name.ends_with(".h5");
}

void check_sizes(const Directory& folder, const Manifest& manifest) {
  const std::string& directory = folder.path();
  for (const auto& file : manifest.files) {
    const std::string path = directory + "/" + file.name;
    struct stat status {};
    if (::fstatat(folder.descriptor(), file.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) !=
        0)
      fail(Status::bad_content, "{}: missing from the checkpoint: {}", path,
           system_reason(errno));
    if (!S_ISREG(status.st_mode)) const PlainFile refused(folder, file.name);
    require(status.st_size == file.bytes, Status::bad_content,
            "{}: has {} bytes, but {} were written", path, status.st_size, file.bytes);
  }
  for (const auto& name : names_in(directory)) {
    const bool listed =
        std::any_of(manifest.files.begin(), manifest.files.end(),
                    [&](const FileEntry& file) { return file.name == name; });
    require(listed || !is_shard(name), Status::bad_content,
            "{}/{}: this shard does not belong to the checkpoint", directory, name);
  }
}

}  // namespace

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(directory.c_str()),
                                                   ::closedir);
  if (!handle) return names;
  while (const dirent* entry = ::readdir(handle.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

Manifest read_manifest(const std::string& directory) {
  try {
    const Directory folder = Directory::to_read(directory);
    const PlainFile file(folder, manifest_name);
    Manifest manifest = parse_manifest(file.path(), file.text(manifest_limit_bytes));
    check_sizes(folder, manifest);
    const auto named = step_of(last_name_of(directory));
    require(!named || *named == manifest.info.step, Status::bad_content,
            "{}: holds step {}: give the folder its name back, {}", directory,
            manifest.info.step, step_name(manifest.info.step));
    return manifest;
  } catch (const Error& error) {
    // A checkpoint without its manifest is not missing but broken.
    if (error.status() != Status::missing_input) throw;
    throw Error(Status::bad_content, error.what(), error.where());
  }
}

std::string why_incomplete(const std::string& directory, int part, int parts) {
  try {
    const Manifest manifest = read_manifest(directory);
    if (parts == 0) return "";
    const Verification found = verify_share(directory, manifest, part, parts);
    return found.damage.empty() ? "" : found.damage.front();
  } catch (const NewerFormat&) {
    throw;
  } catch (const Error& error) {
    return error.what();
  }
}

std::string step_name(std::int64_t step) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "step-%08lld", static_cast<long long>(step));
  return text.data();
}

std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix) || name.size() > prefix.size() + 18) return {};
  const std::string digits = name.substr(prefix.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
    return {};
  const auto step = parse_number<std::int64_t>(digits);
  if (!step || step_name(*step) != name) return {};
  return step;
}

std::vector<std::int64_t> steps_in(const std::string& directory) {
  std::vector<std::int64_t> steps;
  for (const auto& name : names_in(directory))
    if (const auto step = step_of(name)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string latest_target(const std::string& directory) {
  std::array<char, PATH_MAX> target{};
  const std::string path = directory + "/" + latest_name;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length < 0 ? "" : std::string(target.data(), static_cast<std::size_t>(length));
}

std::string mesh_text(const comm::MeshShape& mesh) {
  return format("pipeline={} data={} context={} tensor={}", mesh.pipeline, mesh.data,
                mesh.context, mesh.tensor);
}

}  // namespace trireme::io
