// Philox 4x32-10: random numbers as a pure function of (key, counter).
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// 2011. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// Ten rounds on a 128-bit counter under a 64-bit key; every bit of the result is random.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

// Random numbers that belong to (seed, stream, step) and are addressed by `index`, so
// that every mesh draws the same number for the same logical element.
class Random {
 public:
  // `stream` names the use: a tensor's hash, a purpose. `step` may be 0.
  Random(std::uint64_t seed, std::uint64_t stream, std::uint32_t step = 0)
      : seed_(seed), stream_(stream), step_(step) {}

  // 64 random bits for `index`.
  std::uint64_t bits(std::uint64_t index) const;
  // Uniform in [0, 1), 53 bits.
  double uniform(std::uint64_t index) const;
  // Standard normal by Box and Muller (1958).
  double normal(std::uint64_t index) const;
  // Uniform integer in [0, bound), bound > 0.
  std::uint64_t below(std::uint64_t index, std::uint64_t bound) const;

 private:
  std::array<std::uint32_t, 4> block(std::uint64_t index) const;

  std::uint64_t seed_, stream_;
  std::uint32_t step_;
};

// FNV-1a, 64 bits: turns a name into a stream.
std::uint64_t hash_name(std::string_view name);

}  // namespace trireme
