// Files that are not whole yet, so that a process that ends at once can remove them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme {

// A file that is written under a name of its own before it gets its place. While the
// object lives, remove_temporary_files() removes the file; so does the destructor, unless
// keep() was called because the file has its place now.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  // Renames the file to `path`. Throws Error(cannot_create); the file is then removed.
  void rename_to(const std::string& path);
  // The file has been given its place by other means, or shall stay where it is.
  void keep();

 private:
  std::string path_;
  bool temporary_ = true;
};

// Removes the files of all objects alive. From then on no object renames its file: the
// caller ends the process.
void remove_temporary_files() noexcept;

}  // namespace trireme
