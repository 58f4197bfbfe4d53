// RankedValue: a number and the rank it is of, as one number of the same order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

namespace trireme::engine {

struct RankedValue {
  double value = 0;
  int rank = 0;  // below 2^24
};

// For a reduction by maximum that tells who has it: the rank takes the place of the last
// bits of a positive value, of which 2^-28 is left to be exact. Of positive numbers, bits
// have the order of values. Of equal ones the highest rank wins.
inline constexpr std::uint64_t rank_bits = (std::uint64_t{1} << 24) - 1;

inline double to_ordered_double(RankedValue ranked) {
  const auto bits = std::bit_cast<std::uint64_t>(ranked.value);
  return std::bit_cast<double>((bits & ~rank_bits) |
                               static_cast<std::uint64_t>(ranked.rank));
}

// Nothing for 0.
inline std::optional<RankedValue> from_ordered_double(double ordered) {
  if (!(ordered > 0)) return std::nullopt;
  const auto bits = std::bit_cast<std::uint64_t>(ordered);
  return RankedValue{std::bit_cast<double>(bits & ~rank_bits),
                     static_cast<int>(bits & rank_bits)};
}

}  // namespace trireme::engine
