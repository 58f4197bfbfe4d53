// Philox 4x32-10 and what is drawn from it.
// SPDX-License-Identifier: Apache-2.0
#include "base/philox.hpp"

#include <cmath>

#include "base/fnv.hpp"

namespace trireme {

double Random::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * 0x1p-53;
}

double Random::normal(std::uint64_t index) const {
  const Polar drawn = polar(index);
  return std::sqrt(-2.0 * std::log(drawn.u)) * std::cos(drawn.angle);
}

std::uint64_t Random::below(std::uint64_t index, std::uint64_t bound) const {
  // Multiply-shift: the bias is below bound / 2^64.
  return static_cast<std::uint64_t>(
      (static_cast<unsigned __int128>(bits(index)) * bound) >> 64);
}

std::uint64_t hash_name(std::string_view name) { return fnv64(name); }

}  // namespace trireme
