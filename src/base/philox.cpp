// Philox 4x32-10 and what is drawn from it.
// SPDX-License-Identifier: Apache-2.0
#include "base/philox.hpp"

#include <cmath>
#include <numbers>

namespace trireme {
namespace {

// (0, 1]: never zero, so that its logarithm is finite.
double open_uniform(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 1.0) * 0x1p-53;
}

}  // namespace

double Random::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * 0x1p-53;
}

double Random::normal(std::uint64_t index) const {
  const auto b = block(index);
  const double u = open_uniform(static_cast<std::uint64_t>(b[1]) << 32 | b[0]);
  const double v = open_uniform(static_cast<std::uint64_t>(b[3]) << 32 | b[2]);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

std::uint64_t Random::below(std::uint64_t index, std::uint64_t bound) const {
  // Multiply-shift: the bias is below bound / 2^64.
  return static_cast<std::uint64_t>(
      (static_cast<unsigned __int128>(bits(index)) * bound) >> 64);
}

std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace trireme
