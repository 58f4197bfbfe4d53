// The places of rows that experts get in rounds: the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "base/split.hpp"

namespace trireme::kernels::math {

// Of `count` rows whose places begin at `begin`: those before a window, and those in it.
struct Cut {
  std::int64_t before, inside;
};

TRIREME_HOST_DEVICE Cut cut(std::int64_t begin, std::int64_t count, Range window) {
  const auto below = [begin, count](std::int64_t edge) {
    const std::int64_t rows = edge - begin;
    return rows < 0 ? 0 : rows > count ? count : rows;
  };
  const std::int64_t before = below(window.begin);
  return {before, below(window.end) - before};
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
