// How long the parts are that an extent of a product is cut into.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/split.hpp"

namespace trireme::kernels {

// The length of even parts of `total`, multiples of `unit` but for the last, none much
// longer than `most`.
inline std::int64_t even_part(std::int64_t total, std::int64_t most, std::int64_t unit) {
  const std::int64_t parts = divide_up(total, std::max(most, unit));
  return std::min(total, divide_up(divide_up(total, parts), unit) * unit);
}

}  // namespace trireme::kernels
