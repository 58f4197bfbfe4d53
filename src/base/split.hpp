// Even splits of a range over parts, and rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - begin; }
};

// Part `index` of [0, total) cut into `parts` contiguous ranges whose lengths differ by
// at most one, the longer ones first. Any total is legal; parts may be empty.
constexpr Range split_range(std::int64_t total, std::int64_t parts, std::int64_t index) {
  const std::int64_t length = total / parts, longer = total % parts;
  const std::int64_t begin = index * length + (index < longer ? index : longer);
  return {begin, begin + length + (index < longer ? 1 : 0)};
}

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace trireme
