// PartialWork: files that a job finishes one by one, and another try of it keeps.
// SPDX-License-Identifier: Apache-2.0
// They lie in a folder under a temporary name, each with a record of its size and digest
// beside it. The folder's job.json says what the job is: only the same job goes on. Who
// prepares it holds a lock that all who would do so take, until it has its name or is
// removed: two at a time would remove each other's files.
#pragma once

#include <optional>
#include <string>

#include "io/checkpoint_manifest.hpp"

namespace trireme::io {

class PartialWork {
 public:
  // For one rank: makes the folder ready for a job, which its text names. What another
  // try of the same job left stays; anything else of that name is removed. Returns
  // whether something stays. Throws Error(cannot_create) or Error(io), and leaves nothing
  // where it has made the folder.
  static bool prepare(const Directory& parent, const std::string& name,
                      const std::string& job);

  // For the same rank, after an error: removes the folder. Where something stayed in it
  // (prepare() returned true), what is finished is left for another try, and the log says
  // so.
  static void give_up(const Directory& parent, const std::string& name, bool stayed);

  explicit PartialWork(Directory folder) : folder_(std::move(folder)) {}
  const Directory& folder() const { return folder_; }

  // The note of a file that is finished, and is on the disk as its record says. Otherwise
  // nothing, and neither the file nor a record is there any more.
  std::optional<std::string> note_of(const std::string& file) const;
  // A file, synced, is finished. The note is the caller's, for when it goes on.
  void record(const FileEntry& file, const std::string& note = "") const;
  // Removes the records, when all is finished and the folder is to get its name.
  void clear() const;

 private:
  Directory folder_;
};

}  // namespace trireme::io
