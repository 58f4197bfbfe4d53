// PartialWork: files that a job finishes one by one, and another try of it keeps.
// SPDX-License-Identifier: Apache-2.0
#include "io/partial_work.hpp"

#include "base/counted.hpp"
#include "base/log.hpp"
#include "io/checkpoint_shard.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

constexpr auto job_name = "job.json";
constexpr std::string_view record_end = ".done";
constexpr std::int64_t most_bytes = std::int64_t{1} << 28;

std::string record_of(const std::string& file) { return file + std::string(record_end); }

// A crash may have left half a record, or none.
std::optional<std::string> text_of(const Directory& folder, const std::string& name) {
  if (!folder.is_file(name)) return {};
  return read_text(folder, name, most_bytes);
}

void remove(const Directory& folder, const std::string& name) {
  require(folder.remove_tree(name), Status::cannot_create, "{}: cannot be removed",
          folder.path_of(name));
}

// Files without a record, and the other way round: half written ones, and what belongs
// to the end of the job.
void remove_unfinished(const Directory& folder) {
  for (const std::string& name : folder.all_names()) {
    const bool record = name.ends_with(record_end);
    const std::string other =
        record ? name.substr(0, name.size() - record_end.size()) : record_of(name);
    if (name != job_name && !folder.is_file(other)) remove(folder, name);
  }
}

}  // namespace

bool PartialWork::prepare(const Directory& parent, const std::string& name,
                          const std::string& job) {
  if (parent.has(name)) {
    parent.require_folder(name);
    const Directory folder = parent.open(name);
    if (text_of(folder, job_name) == job) {
      remove_unfinished(folder);
      return true;
    }
    require(parent.remove_tree(name), Status::cannot_create,
            "{}: left by an earlier job, cannot be removed", parent.path_of(name));
  }
  try {
    write_text_atomically(parent.make(name), job_name, job);
    parent.sync();
  } catch (const Error&) {  // a full disk
    parent.remove_tree(name);
    throw;
  }
  return false;
}

void PartialWork::give_up(const Directory& parent, const std::string& name, bool stayed) {
  if (!stayed) {
    parent.remove_tree(name);
    return;
  }
  try {
    const Directory folder = parent.open(name);
    remove_unfinished(folder);
    std::int64_t finished = 0;
    for (const std::string& file : folder.all_names())
      finished += file.ends_with(record_end) ? 1 : 0;
    if (finished == 0)
      parent.remove_tree(name);
    else
      log::warn(
          "{}: {} of an earlier try stay for another one; remove it if there is none",
          parent.path_of(name), counted(finished, "file"));
  } catch (const Error& error) {  // another try looks again
    log::warn("{}", error.what());
  }
}

std::optional<std::string> PartialWork::note_of(const std::string& file) const {
  const auto text = text_of(folder_, record_of(file));
  if (text) {
    // Its first line is a digest of the rest, whose first line is the file's.
    const auto sum = text->find('\n'), own = text->find('\n', sum + 1);
    const bool whole = sum != std::string::npos && own != std::string::npos &&
                       digest_of(text->substr(sum + 1)) == text->substr(0, sum);
    if (whole && folder_.is_file(file) &&
        file_entry(folder_.path(), file).digest == text->substr(sum + 1, own - sum - 1))
      return text->substr(own + 1);
    log::warn("{}: is not as it was written: it is made again", folder_.path_of(file));
  }
  remove(folder_, record_of(file));
  remove(folder_, file);
  return {};
}

void PartialWork::record(const FileEntry& file, const std::string& note) const {
  const std::string text = file.digest + "\n" + note;
  write_text_atomically(folder_, record_of(file.name), digest_of(text) + "\n" + text);
}

void PartialWork::clear() const {
  for (const std::string& name : folder_.all_names())
    if (name.ends_with(record_end)) remove(folder_, name);
  remove(folder_, job_name);
}

}  // namespace trireme::io
