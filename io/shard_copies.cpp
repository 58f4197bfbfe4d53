// Copies of shards in memory of a node that outlives the program.
// SPDX-License-Identifier: Apache-2.0
#include "io/shard_copies.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/directory.hpp"
#include "base/number.hpp"
#include "base/system_reason.hpp"
#include "io/checkpoint_index.hpp"
#include "io/checkpoint_manifest_json.hpp"
#include "io/checkpoint_shard.hpp"
#include "io/digest.hpp"
#include "io/plain_file.hpp"

namespace trireme::io {
namespace {

constexpr std::int64_t text_limit_bytes = std::int64_t{1} << 30;

// "shard-00003" and an end.
std::string text_name(int shard, const std::string& end) {
  const std::string name = shard_name(shard);
  return name.substr(0, name.rfind('.')) + end;
}

// Opens the folder that a shard's file lies in.
Directory folder_of_file(const Directory& folder, const std::string& name, bool make) {
  const auto slash = name.find('/');
  if (slash == std::string::npos) return Directory::own(folder.path());
  const std::string beneath = name.substr(0, slash);
  return make ? folder.make(beneath) : folder.open(beneath);
}

// Removes the text that an earlier start of the run wrote for this shard: it does not
// describe the file that is written next.
void remove_text(const Directory& folder, int shard) {
  const std::string name = text_name(shard, ".json");
  require(folder.remove(name), Status::cannot_create, "{}: cannot be removed: {}",
          folder.path_of(name), system_reason(errno));
}

Manifest parse(const std::string& path, const ManifestTexts& texts) {
  ParsedManifest parsed = parse_manifest(path, texts.manifest);
  require(!parsed.index.name.empty() && digest_of(texts.index) == parsed.index.digest,
          Status::bad_content, "{}: damaged: its index has another digest", path);
  parse_index(path, texts.index, parsed.manifest);
  require(parsed.manifest.files.size() <= 1, Status::bad_content,
          "{}: lists {} files, but a shard has one", path, parsed.manifest.files.size());
  return std::move(parsed.manifest);
}

ManifestTexts texts_in(const Directory& folder, int shard) {
  return {PlainFile(folder, text_name(shard, ".json")).text(text_limit_bytes),
          PlainFile(folder, text_name(shard, ".index")).text(text_limit_bytes)};
}

}  // namespace

std::int64_t copies_bytes(const std::vector<TensorBox>& boxes) {
  constexpr std::int64_t steps = 2, shards = 2;
  return steps * shards * shard_bytes(boxes);
}

std::string ShardCopies::folder_of(std::int64_t step) const {
  return path_ + "/" + step_name(step);
}

void ShardCopies::make() const {
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST)
    fail(Status::cannot_create, "{}: cannot be made: {}", path_, system_reason(errno));
  require_own();
}

void ShardCopies::require_own() const {
  struct stat status {};
  const bool there = ::lstat(path_.c_str(), &status) == 0;
  require(
      there ? S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() : errno == ENOENT,
      Status::cannot_create, "{}: is not a folder of this user: remove it", path_);
}

void ShardCopies::make(std::int64_t step) const {
  Directory::own(path_).make(step_name(step));
}

std::vector<std::int64_t> ShardCopies::steps() const { return steps_in(path_); }

std::vector<int> ShardCopies::shards(std::int64_t step) const {
  std::vector<int> numbers;
  constexpr std::string_view prefix = "shard-", end = ".json";
  for (const std::string& name : names_in(folder_of(step))) {
    if (!name.starts_with(prefix) || !name.ends_with(end)) continue;
    const auto number = parse_number<int>(
        name.substr(prefix.size(), name.size() - prefix.size() - end.size()));
    if (number && text_name(*number, std::string(end)) == name)
      numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void ShardCopies::write(const CheckpointInfo& info, const std::vector<TensorBox>& boxes,
                        int shard, int shards) const {
  const Directory folder = Directory::own(path_).make(step_name(info.step));
  const std::string name = shard_path(shard, shards);
  folder_of_file(folder, name, true);
  remove_text(folder, shard);
  const ShardReport report =
      write_shard(folder, name, boxes, shard < ranks_that_name_all);
  const FileEntry index{index_name, static_cast<std::int64_t>(report.index.size()),
                        digest_of(report.index), ""};
  finish(info.step, shard, {manifest_text(info, index), report.index});
}

ShardCopies::Content ShardCopies::read(std::int64_t step, int shard) const {
  const Directory folder = Directory::own(folder_of(step));
  Content content;
  content.texts = texts_in(folder, shard);
  const Manifest manifest =
      parse(folder.path_of(text_name(shard, ".json")), content.texts);
  if (manifest.files.empty()) return content;
  content.name = manifest.files[0].name;
  content.file = MappedFile::to_read(folder_of_file(folder, content.name, false),
                                     last_name_of(content.name));
  return content;
}

MappedFile ShardCopies::create_file(std::int64_t step, int shard, int shards,
                                    std::int64_t bytes) const {
  require(shard >= 0 && shard < shards, "shard {} of {}", shard, shards);
  const std::string name = shard_path(shard, shards);
  const Directory folder = Directory::own(path_).make(step_name(step));
  remove_text(folder, shard);
  return MappedFile::create(folder_of_file(folder, name, true), last_name_of(name),
                            bytes);
}

// The text that makes a shard complete gets its name last.
void ShardCopies::finish(std::int64_t step, int shard, const ManifestTexts& texts) const {
  const Directory folder = Directory::own(path_).make(step_name(step));
  replace_text(folder, text_name(shard, ".index"), texts.index, Durability::unsynced);
  replace_text(folder, text_name(shard, ".json"), texts.manifest, Durability::unsynced);
}

ShardCopies::Checked ShardCopies::check(std::int64_t step, int shard) const {
  const Directory folder = Directory::own(folder_of(step));
  Checked checked;
  checked.texts = texts_in(folder, shard);
  const std::string path = folder.path_of(text_name(shard, ".json"));
  Manifest manifest = parse(path, checked.texts);
  require(manifest.info.step == step, Status::bad_content, "{}: is of step {}", path,
          manifest.info.step);
  for (const FileEntry& entry : manifest.files) {
    const PlainFile file(folder_of_file(folder, entry.name, false),
                         last_name_of(entry.name), Links::refused, entry.bytes);
    const std::string digest = file.digest();
    require(file.size() == entry.bytes && digest == entry.digest, Status::bad_content,
            "{}: damaged: its XXH3-128 is {}, but {} was written", file.path(), digest,
            entry.digest);
  }
  checked.info = std::move(manifest.info);
  return checked;
}

void ShardCopies::remove(std::int64_t step) const {
  if (!names_in(path_).empty()) Directory::own(path_).remove_tree(step_name(step));
}

void ShardCopies::remove_before(std::int64_t step, std::int64_t keep) const {
  for (const std::int64_t other : steps())
    if (other < step && other != keep) remove(other);
}

void ShardCopies::remove_all() const {
  if (!names_in(path_).empty())
    Directory(parent_of(path_)).remove_tree(last_name_of(path_));
}

}  // namespace trireme::io
