// Variables of the environment: the text of one, and to forget those of libraries.
// SPDX-License-Identifier: Apache-2.0
#include "base/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace trireme {

std::string environment_text(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool forget_variables(std::initializer_list<std::string_view> prefixes,
                      std::initializer_list<std::string_view> kept) {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
    if (std::any_of(prefixes.begin(), prefixes.end(), begins) &&
        std::find(kept.begin(), kept.end(), name) == kept.end())
      names.emplace_back(name);
  }
  for (const auto& name : names) ::unsetenv(name.c_str());
  return true;
}

}  // namespace trireme
