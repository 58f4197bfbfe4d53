// The places of rows that experts get in rounds: the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "base/split.hpp"

namespace trireme::kernels::math {

// Which of `count` rows, whose places begin at `begin`, have theirs in a window.
TRIREME_HOST_DEVICE Range rows_in_window(std::int64_t begin, std::int64_t count,
                                         Range window) {
  const auto below = [begin, count](std::int64_t edge) {
    const std::int64_t rows = edge - begin;
    return rows < 0 ? 0 : rows > count ? count : rows;
  };
  return {below(window.begin), below(window.end)};
}

// Where `rows` rows begin that may begin at `next`, in rounds of `bound` places: there,
// or, where a round would end within a block of them, so many places later that it ends
// between two.
TRIREME_HOST_DEVICE std::int32_t first_place(std::int32_t next, std::int32_t rows,
                                             std::int32_t bound, std::int32_t block) {
  const std::int32_t left = bound - next % bound;
  return rows > left ? next + left % block : next;
}

}  // namespace trireme::kernels::math
