// Philox 4x32-10: random numbers as a pure function of (key, counter).
// SPDX-License-Identifier: Apache-2.0
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace trireme {

// Ten rounds on a 128-bit counter under a 64-bit key; every bit of the result is random.
// Constant expressions, so that kernels of any device can draw.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t multiplier_0 = 0xD2511F53u, multiplier_1 = 0xCD9E8D57u;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9u, weyl_1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = multiplier_0 * counter[0];
    const std::uint64_t p1 = multiplier_1 * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(p0)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return counter;
}

// Random numbers that belong to (seed, stream, step) and are addressed by `index`, so
// that every mesh draws the same number for the same logical element.
class Random {
 public:
  // `stream` names the use: a tensor's hash, a purpose. `step` may be 0.
  constexpr Random(std::uint64_t seed, std::uint64_t stream, std::uint32_t step = 0)
      : seed_(seed), stream_(stream), step_(step) {}

  // 64 random bits for `index`.
  constexpr std::uint64_t bits(std::uint64_t index) const {
    const auto b = block(index);
    return static_cast<std::uint64_t>(b[1]) << 32 | b[0];
  }
  // Uniform in [0, 1), 53 bits.
  double uniform(std::uint64_t index) const;
  // Standard normal by Box and Muller (1958): sqrt(-2 log u) cos(angle) of polar().
  double normal(std::uint64_t index) const;
  struct Polar {
    double u;      // in (0, 1]: never zero, so that its logarithm is finite
    double angle;  // in (0, 2 pi]
  };
  constexpr Polar polar(std::uint64_t index) const {
    const auto b = block(index);
    const auto open = [](std::uint32_t high, std::uint32_t low) {
      return (whole((static_cast<std::uint64_t>(high) << 32 | low) >> 11) + 1.0) *
             0x1p-53;
    };
    return {open(b[1], b[0]), 2.0 * std::numbers::pi * open(b[3], b[2])};
  }
  // Uniform integer in [0, bound), bound > 0.
  std::uint64_t below(std::uint64_t index, std::uint64_t bound) const;

 private:
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    // The counter has too few bits for a 64-bit index, a 64-bit stream and the step: the
    // stream's upper half is mixed into the key.
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    return philox4x32({low(index), high(index), low(stream_), step_},
                      {low(seed_) ^ high(stream_), high(seed_)});
  }

  // x as a double, exact below 2^53: its halves are made the lowest bits of 2^84 and
  // 2^52. Loops over a conversion are vectorised with AVX-512 alone.
  static constexpr double whole(std::uint64_t x) {
    const double high = std::bit_cast<double>(0x4530000000000000u | x >> 32) - 0x1p84;
    return high +
           (std::bit_cast<double>(0x4330000000000000u | (x & 0xffffffffu)) - 0x1p52);
  }

  std::uint64_t seed_, stream_;
  std::uint32_t step_;
};

// FNV-1a, 64 bits: turns a name into a stream.
std::uint64_t hash_name(std::string_view name);

}  // namespace trireme
