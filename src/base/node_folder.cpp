// A folder of each node's own, as a deck names it for all ranks.
// SPDX-License-Identifier: Apache-2.0
#include "base/node_folder.hpp"

#include <cstdlib>

#include "base/error.hpp"

namespace trireme {

std::string node_folder(const std::string& written, std::string_view key,
                        std::string_view instead) {
  if (!written.starts_with('$')) return written;
  const auto slash = written.find('/');
  const std::string name = written.substr(1, slash - 1);
  const char* const value = std::getenv(name.c_str());
  require(value != nullptr && *value == '/', Status::cannot_create,
          "{} = \"{}\": the variable {} is {}, and has to name a folder from '/' on: set "
          "it on every node, or write \"{}\"",
          key, written, name, value == nullptr ? "not set" : format("'{}'", value),
          instead);
  return value + (slash == std::string::npos ? "" : written.substr(slash));
}

}  // namespace trireme
