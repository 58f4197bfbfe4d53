// A number and what it counts, in the singular or the plural.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// "1 host", "4 hosts", "2 microbatches".
inline std::string counted(std::int64_t count, std::string_view one) {
  const std::string_view ending = one.ends_with("ch") ? "es" : "s";
  return std::to_string(count) + " " + std::string(one) +
         std::string(count == 1 ? "" : ending);
}

}  // namespace trireme
