// Files that are not whole yet, so that a process that ends at once can remove them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace trireme {

// A file that is written under a name of its own before it gets its place. While the
// object lives, remove_temporary_files() removes the file; so does the destructor, unless
// the file has been given its place.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  // Calls `rename`, which gives the file its place. What it throws passes through, and
  // the file is removed as before.
  void place(const std::function<void()>& rename);

 private:
  std::string path_;
};

// Removes the files of all objects alive. From then on no object renames its file: the
// caller ends the process.
void remove_temporary_files() noexcept;

}  // namespace trireme
