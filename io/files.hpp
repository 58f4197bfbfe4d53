// Files and directories: checked, atomic, synced.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/directory.hpp"

namespace trireme::io {

// Whole content of a regular file: FIFOs, devices and sockets are refused without a wait.
// Throws Error(missing_input), Error(io), or Error(bad_content) above `limit`.
std::string read_text(const std::string& path, std::int64_t limit);
// The same of a pipe too: for files that the command line names.
std::string read_text_or_pipe(const std::string& path, std::int64_t limit);
// The same of a file in a run's folder, which may be no link: Error(cannot_create).
std::string read_text(const Directory& folder, const std::string& name,
                      std::int64_t limit);
// Writes under a temporary name, syncs, renames, syncs the directory. Throws
// Error(cannot_create), also when what bears the name is a link or no file, or Error(io);
// an existing file is replaced as a whole or not at all.
void write_text_atomically(const std::string& path, const std::string& text);
void write_text_atomically(const Directory& folder, const std::string& name,
                           const std::string& text);
// Makes a directory and its parents. Throws Error(cannot_create) naming the first that
// fails.
void make_directories(const std::string& path);
// Files that a path or glob names, sorted. Throws Error(missing_input) when none.
std::vector<std::string> expand(const std::string& pattern);
void sync_file(const std::string& path);
// XXH3-128 of a file's content as 32 hexadecimal digits.
std::string file_digest(const std::string& path);

using trireme::uninterrupted;

// Bytes that this process has read from files through this module, HDF5's included.
std::int64_t bytes_read();
void count_read(std::int64_t bytes);

}  // namespace trireme::io
