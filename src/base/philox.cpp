// Philox 4x32-10 and what is drawn from it.
// SPDX-License-Identifier: Apache-2.0
#include "base/philox.hpp"

#include <cmath>
#include <numbers>

namespace trireme {
namespace {

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

// (0, 1]: never zero, so that its logarithm is finite.
double open_uniform(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 1.0) * 0x1p-53;
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t multiplier_0 = 0xD2511F53u, multiplier_1 = 0xCD9E8D57u;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9u, weyl_1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = multiplier_0 * counter[0];
    const std::uint64_t p1 = multiplier_1 * counter[2];
    counter = {high(p1) ^ counter[1] ^ key[0], low(p1), high(p0) ^ counter[3] ^ key[1],
               low(p0)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return counter;
}

std::array<std::uint32_t, 4> Random::block(std::uint64_t index) const {
  // The counter has no room for a 64-bit index, a 64-bit stream and the step: the
  // stream's upper half is mixed into the key.
  return philox4x32({low(index), high(index), low(stream_), step_},
                    {low(seed_) ^ high(stream_), high(seed_)});
}

std::uint64_t Random::bits(std::uint64_t index) const {
  const auto b = block(index);
  return static_cast<std::uint64_t>(b[1]) << 32 | b[0];
}

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
