// Reads the project's files.
// SPDX-License-Identifier: Apache-2.0
#include "style/source_tree.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace trireme::style {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kept_extensions =
    ".cpp .hpp .cu .cuh .h .c .cmake .txt .sh .sbatch .md .toml .json .in .supp .py "
    ".yaml";

fs::path root() {
  const char* path = std::getenv("TRIREME_SOURCE");
  if (path == nullptr) throw std::runtime_error("TRIREME_SOURCE is not set; use ctest");
  return path;
}

SourceFile read(const fs::path& path) {
  SourceFile file;
  file.path = fs::relative(path, root()).generic_string();
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) file.lines.push_back(line);
  return file;
}

std::vector<SourceFile> read_all() {
  std::vector<SourceFile> files;
  for (const std::string_view top :
       words("CMakeLists.txt CMakePresets.json README.md CONTRIBUTING.md .ci cmake src "
             "kernels comm io jobs inputs tests docs spack")) {
    const fs::path path = root() / top;
    if (fs::is_regular_file(path)) files.push_back(read(path));
    if (!fs::is_directory(path)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      const std::string extension = entry.path().extension().string();
      const bool is_script = top == ".ci" && extension.empty();
      if (!entry.is_regular_file()) continue;
      if (is_script || contains_word(kept_extensions, extension)) {
        files.push_back(read(entry.path()));
      }
    }
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace

bool SourceFile::has_extension(std::string_view list) const {
  return contains_word(list, fs::path(path).extension().string());
}

bool SourceFile::is_under(std::string_view folder) const {
  return path.starts_with(std::string(folder) + "/");
}

const std::vector<SourceFile>& source_files() {
  static const std::vector<SourceFile> files = read_all();
  return files;
}

std::vector<const SourceFile*> code_files() {
  std::vector<const SourceFile*> code;
  for (const SourceFile& file : source_files()) {
    if (file.has_extension(".hpp .cpp .cu .cuh")) code.push_back(&file);
  }
  return code;
}

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> result;
  while (!list.empty()) {
    const auto end = std::min(list.find(' '), list.size());
    if (end > 0) result.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return result;
}

bool contains_word(std::string_view list, std::string_view word) {
  const auto all = words(list);
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::string bare_code(std::string_view line) {
  std::string code;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (!in_string && line.substr(i, 2) == "//") break;
    if (in_string && line[i] == '\\') {
      ++i;
      continue;
    }
    if (line[i] == '"') in_string = !in_string;
    if (!in_string || line[i] == '"') code += line[i];
  }
  return code;
}

}  // namespace trireme::style
