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
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/number.hpp"
#include "base/system_reason.hpp"
#include "io/checkpoint_index.hpp"
#include "io/checkpoint_manifest_json.hpp"
#include "io/checkpoint_verify.hpp"
#include "io/digest.hpp"
#include "io/link_target.hpp"
#include "io/plain_file.hpp"

namespace trireme::io {
namespace {

constexpr std::int64_t manifest_limit_bytes = std::int64_t{1} << 30;

bool is_shard(std::string_view name) {
  return name.starts_with("shard-") && name.ends_with(".h5");
}

constexpr std::string_view folder_prefix = "shards-";

void check_size(const Directory& folder, const std::string& name, std::int64_t bytes) {
  const std::string path = folder.path() + "/" + name;
  struct stat status {};
  if (::fstatat(folder.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR)
      fail(Status::bad_content, "{}: missing from the checkpoint: {}", path,
           system_reason(error));
    fail(error == EACCES || error == EPERM ? Status::missing_input : Status::io,
         "{}: cannot be inspected: {}", path, system_reason(error));
  }
  if (!S_ISREG(status.st_mode)) const PlainFile refused(folder, name);
  require(status.st_size == bytes, Status::bad_content,
          "{}: has {} bytes, but {} were written", path, status.st_size, bytes);
}

// What the work says, or the error that it ends with.
template <class Work>
std::string what_is_wrong(const Work& work) {
  try {
    return work();
  } catch (const NewerFormat&) {
    throw;
  } catch (const Error& error) {
    return error.what();
  }
}

// The folder of a member's name: "" for the checkpoint's own.
std::string folder_in(const std::string& name) {
  const auto slash = name.find('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

}  // namespace

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const auto cannot_be_read = [&](int error) {
    fail(error == EIO ? Status::io : Status::missing_input, "{}: cannot be read: {}",
         directory, system_reason(error));
  };
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(directory.c_str()),
                                                   ::closedir);
  if (!handle) {
    if (errno != ENOENT && errno != ENOTDIR) cannot_be_read(errno);
    return names;
  }
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(handle.get());
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  if (errno != 0) cannot_be_read(errno);
  std::sort(names.begin(), names.end());
  return names;
}

bool is_word(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
  });
}

bool is_member_name(const std::string& name) {
  const std::string folder = folder_in(name);
  const std::string own = folder.empty() ? name : name.substr(folder.size() + 1);
  if (!is_plain_name(own) || name == manifest_name || name == index_name) return false;
  return name == own || (folder.starts_with(folder_prefix) && is_shard(own) &&
                         folder.find_first_not_of("0123456789", folder_prefix.size()) ==
                             std::string::npos);
}

BoxEntry Manifest::box(std::size_t tensor, std::size_t i) const {
  const BoxRecord record = boxes.get(tensor, i);
  return {files[record.file].name, record.offset, record.begin, record.extent, ""};
}

CheckpointInfo read_info(const Directory& folder) {
  const PlainFile file(folder, manifest_name);
  return parse_manifest(file.path(), file.text(manifest_limit_bytes)).manifest.info;
}

ManifestTexts read_texts(const Directory& folder) {
  const PlainFile file(folder, manifest_name);
  ManifestTexts texts;
  texts.manifest = file.text(manifest_limit_bytes);
  const ParsedManifest parsed = parse_manifest(file.path(), texts.manifest);
  if (parsed.index.name.empty()) return texts;
  const PlainFile index(folder, index_name, Links::refused, parsed.index.bytes);
  texts.index = index.text(index_limit_bytes);
  return texts;
}

Manifest parse_listed(const std::string& directory, ManifestTexts texts) {
  ParsedManifest parsed = parse_manifest(directory + "/" + manifest_name, texts.manifest);
  if (parsed.index.name.empty()) return std::move(parsed.manifest);
  const std::string path = directory + "/" + index_name;
  const std::string digest = digest_of(texts.index);
  require(digest == parsed.index.digest, Status::bad_content,
          "{}: damaged: its XXH3-128 is {}, but {} was written", path, digest,
          parsed.index.digest);
  parse_index(path, std::move(texts.index), parsed.manifest);
  return std::move(parsed.manifest);
}

Manifest parse_texts(const std::string& directory, ManifestTexts texts) {
  const bool has_index = !texts.index.empty();
  Manifest manifest = parse_listed(directory, std::move(texts));
  if (has_index) require_whole(directory + "/" + index_name, manifest);
  return manifest;
}

void check_files(const Directory& folder, const Manifest& manifest, bool sizes) {
  const std::string& directory = folder.path();
  const auto named = step_of(last_name_of(directory));
  require(!named || *named == manifest.info.step, Status::bad_content,
          "{}: holds step {}: give the folder its name back, {}", directory,
          manifest.info.step, step_name(manifest.info.step));
  // Listed and there, by folder.
  std::map<std::string, std::pair<std::set<std::string>, std::vector<std::string>>> all;
  all[""];
  for (const FileEntry& file : manifest.files) all[folder_in(file.name)];
  for (auto& [name, content] : all)
    content.second = name.empty() ? folder.all_names() : names_in(directory + "/" + name);
  for (const FileEntry& file : manifest.files) {
    auto& [listed, there] = all[folder_in(file.name)];
    const std::string own = last_name_of(file.name);
    listed.insert(own);
    if (!sizes && std::binary_search(there.begin(), there.end(), own)) continue;
    check_size(folder, file.name, file.bytes);
  }
  for (const auto& [name, content] : all)
    for (const std::string& own : content.second)
      require(!is_shard(own) || content.first.contains(own), Status::bad_content,
              "{}{}/{}: this shard does not belong to the checkpoint", directory,
              name.empty() ? "" : "/" + name, own);
}

OpenedCheckpoint open_checkpoint(const std::string& directory, bool sizes) {
  OpenedCheckpoint opened{Directory::to_read(directory), ""};
  ManifestTexts texts = read_texts(opened.folder);
  opened.has_index = !texts.index.empty();
  opened.text = texts.manifest;
  opened.manifest = parse_texts(directory, std::move(texts));
  check_files(opened.folder, opened.manifest, sizes);
  return opened;
}

Manifest read_manifest(const std::string& directory) {
  return open_checkpoint(directory, true).manifest;
}

std::string why_incomplete(const std::string& directory, int part, int parts) {
  return what_is_wrong([&]() -> std::string {
    const Manifest manifest = read_manifest(directory);
    if (parts == 0) return "";
    const Verification found = verify_share(directory, manifest, part, parts);
    return found.damage.empty() ? "" : found.damage.front();
  });
}

std::string why_not_all_there(const std::string& directory) {
  return what_is_wrong([&] {
    open_checkpoint(directory, false);
    return "";
  });
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

std::vector<std::int64_t> steps_among(const std::vector<std::string>& names) {
  std::vector<std::int64_t> steps;
  for (const auto& name : names)
    if (const auto step = step_of(name)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<std::int64_t> steps_in(const std::string& directory) {
  return steps_among(names_in(directory));
}

std::string latest_target(const Directory& folder) {
  return link_target(folder.descriptor(), latest_name);
}

std::string latest_target(const std::string& directory) {
  return link_target(AT_FDCWD, directory + "/" + latest_name);
}

std::string mesh_text(const comm::MeshShape& mesh) {
  return format("pipeline={} data={} context={} tensor={}", mesh.pipeline, mesh.data,
                mesh.context, mesh.tensor);
}

}  // namespace trireme::io
