// The project's files as lines, for tests that read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::style {

struct SourceFile {
  std::string path;  // relative to the project's root
  std::vector<std::string> lines;

  bool has_extension(std::string_view list) const;  // ".hpp .cpp"
  bool is_under(std::string_view folder) const;
};

// Every text file of the project but for build folders, hidden folders, licences and
// data.
const std::vector<SourceFile>& source_files();

// The files that are C++ or CUDA.
std::vector<const SourceFile*> code_files();

// The words of a list that is separated by blanks.
std::vector<std::string_view> words(std::string_view list);
bool contains_word(std::string_view list, std::string_view word);

// A line of code without its comment and without what its string literals hold.
std::string bare_code(std::string_view line);

}  // namespace trireme::style
