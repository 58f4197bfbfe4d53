// The names that a run writes in its directory, and what may bear them before it starts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::io {

// Whether every name that a run writes, renames or removes in its directory is free or
// what it is to be: a regular file or a directory, and no link. So a start that cannot go
// well has touched nothing. Each is looked at again when it is opened. Throws
// Error(cannot_create) naming the first that is not.
void check_run_directory(const std::string& directory);

// Whether somebody asks a run for something by a file, `stop` or `save`, in its
// directory. What bears the name and is no regular file asks for nothing.
bool is_asked_by_file(const std::string& directory, const char* name);
// Removes that file.
void remove_request(const std::string& directory, const char* name);

// The path with nothing before it that depends on where the program was started, links
// resolved; as it is given where that cannot be told.
std::string absolute_path(const std::string& path);

}  // namespace trireme::io
