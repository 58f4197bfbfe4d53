// Compares files, not names: links and "./" lead to the same one.
// SPDX-License-Identifier: Apache-2.0
#include "app/result_path.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.hpp"
#include "base/text.hpp"

namespace trireme::app {

void check_result(const std::string& result, const std::vector<std::string>& read,
                  std::string_view option) {
  std::error_code none;
  if (!std::filesystem::exists(result, none)) return;
  for (const std::string& file : read)
    require(
        !std::filesystem::equivalent(result, file, none), Status::command_line,
        "{} {}: would be written over {}, which is read: give the result another name",
        option, one_line(result), one_line(file));
}

void check_replaced(const std::string& result,
                    const std::vector<std::string_view>& beginnings,
                    std::string_view what) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(result, none)) return;
  std::string begins(64, '\0');
  std::ifstream file(result, std::ios::binary);
  file.read(begins.data(), static_cast<std::streamsize>(begins.size()));
  begins.resize(static_cast<std::size_t>(file.gcount()));
  const bool is_one =  // a file that is cut short, or empty, holds nothing to lose
      std::any_of(beginnings.begin(), beginnings.end(), [&](std::string_view beginning) {
        return beginning.starts_with(begins.substr(0, beginning.size()));
      });
  require(is_one, Status::cannot_create,
          "{}: is there already, and is no {}, which would take its place: move it away, "
          "or give the result another name",
          one_line(result), what);
}

}  // namespace trireme::app
