// Compares files, not names: links and "./" lead to the same one.
// SPDX-License-Identifier: Apache-2.0
#include "app/result_path.hpp"

#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "base/text.hpp"

namespace trireme::app {

void check_result(const std::string& result, const std::vector<std::string>& read) {
  std::error_code none;
  if (!std::filesystem::exists(result, none)) return;
  for (const std::string& file : read)
    require(
        !std::filesystem::equivalent(result, file, none), Status::command_line,
        "-o {}: would be written over {}, which is read: give the result another name",
        one_line(result), one_line(file));
}

}  // namespace trireme::app
