// Directory: an open folder, and files beneath it, reached without following a link.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"

namespace trireme {

// Where a run writes. Whoever gives a path chooses where it leads, so that links in the
// path of the folder itself are followed; from the folder on none is: a name beneath it
// that is a link, or anything else than what is to be there, is an error that names it,
// before anything is written, renamed or removed.
//
// A `name` is one name, without '/'. Files get 0666 and folders 0777, less the umask.
// Unless said otherwise, functions throw Error(cannot_create) with the full path.
class Directory {
 public:
  // The folder at a path.
  explicit Directory(const std::string& path);
  // The folder at a path, only to read files from it. Throws Error(missing_input).
  static Directory to_read(const std::string& path);
  // The folder at a path whose last name may be no link: one of a run's own.
  static Directory own(const std::string& path);
  // The same, made if it is not there; the folder that it lies in is.
  static Directory make_own(const std::string& path);

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view name) const;
  int descriptor() const { return file_.get(); }

  // A folder beneath; find() gives none and make() makes it if nothing bears the name.
  Directory open(const std::string& name) const;
  std::optional<Directory> find(const std::string& name) const;
  Directory make(const std::string& name) const;

  // Whether anything bears a name, a link that leads nowhere included.
  bool has(const std::string& name) const;
  bool is_file(const std::string& name) const;  // a regular one, and no link to one
  bool is_link(const std::string& name) const;
  bool is_shared(const std::string& name) const;  // a file that has other names too
  // Names of what is in the folder, sorted; none if it cannot be read.
  std::vector<std::string> names() const;
  // What is in the folder, sorted by names, for whom a name that is not seen would be one
  // that is not there. Throws Error(io) when the folder cannot be read to its end.
  struct Entry {
    std::string name;
    bool is_folder;  // as far as the folder tells; false where it does not know
  };
  std::vector<Entry> entries() const;
  std::vector<std::string> all_names() const;  // of entries()
  // Throw unless the name is free, or a regular file's or a folder's.
  void require_file(const std::string& name) const;
  void require_folder(const std::string& name) const;

  // A new file. A regular file of that name is replaced (its bytes may have other names).
  Descriptor create(const std::string& name) const;
  // A regular file to read and write, or to write at its end; made if it is not there.
  Descriptor open_to_write(const std::string& name) const;
  Descriptor open_to_append(const std::string& name) const;
  // A file to read. Not open when nothing bears the name or what does is no regular file.
  Descriptor read_file(const std::string& name) const;

  // What bore the new name is replaced, and is no link.
  void rename(const std::string& from, const std::string& to) const;
  // The same to a file's own name in another folder.
  void rename_into(const Directory& folder, const std::string& name) const;
  // Removes a file, or the link itself. False with errno; a name that is free is fine.
  bool remove(const std::string& name) const;
  // Removes a folder and all in it, or a file. Links are removed, what they lead to is
  // not. False with errno when something is left.
  bool remove_tree(const std::string& name) const;
  // Syncs the folder's entries. Throws Error(io).
  void sync() const;

 private:
  Directory(Descriptor file, std::string path);
  Descriptor open_or_make(const std::string& name, int access) const;
  void move(const std::string& from, const Directory& folder,
            const std::string& to) const;

  std::string path_;
  Descriptor file_;
};

std::vector<std::string> names_of(const std::vector<Directory::Entry>& entries);

// "runs/a" of "runs/a/lock", and "lock"; "." where there is no '/'.
std::string parent_of(const std::string& path);
std::string last_name_of(const std::string& path);

// Whether what is written is on the disk, whatever the machine does, when a call returns.
enum class Durability : bool { unsynced, synced };

// Writes a file under a temporary name, then gives it its name: readers see the old text
// or the new one. Durability::synced: file and folder are synced. Throws
// Error(cannot_create) or Error(io); what was there is replaced as a whole or not at all.
void replace_text(const Directory& folder, const std::string& name, std::string_view text,
                  Durability durability);

}  // namespace trireme
