// The places of rows that experts get in rounds: the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "base/split.hpp"

namespace trireme::kernels::math {

// How many of `count` rows, whose places begin at `begin`, have theirs in a window.
TRIREME_HOST_DEVICE std::int64_t rows_in_window(std::int64_t begin, std::int64_t count,
                                                Range window) {
  const std::int64_t from = begin < window.begin ? window.begin : begin;
  const std::int64_t end = begin + count < window.end ? begin + count : window.end;
  return end > from ? end - from : 0;
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
