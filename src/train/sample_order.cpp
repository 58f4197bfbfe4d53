// The order of samples: a keyed permutation, computed one element at a time.
// SPDX-License-Identifier: Apache-2.0
#include "train/sample_order.hpp"

#include <bit>

#include "base/error.hpp"
#include "base/philox.hpp"

namespace trireme::train {
namespace {

// Four rounds make a pseudo-random permutation of a large set; small sets, whose halves
// have few bits, need more to look random.
constexpr std::uint64_t rounds = 8;

// A permutation of [0, 4^half_bits): (l, r) -> (r, l xor F_k(r)), invertible whatever F.
std::uint64_t permute(const Random& function, int half_bits, std::uint64_t value) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits, right = value & mask;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::uint64_t mixed = function.bits(round << 32 | right) & mask;
    const std::uint64_t next = left ^ mixed;
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

std::int64_t sample_at(std::uint64_t seed, std::int64_t global_index,
                       std::int64_t samples) {
  require(global_index >= 0 && samples >= 1, "sample {} of a source of {}", global_index,
          samples);
  static const std::uint64_t stream = hash_name("sample order");
  const auto epoch = static_cast<std::uint64_t>(global_index / samples);
  const auto count = static_cast<std::uint64_t>(samples);
  const Random function(seed, stream + (epoch >> 32), static_cast<std::uint32_t>(epoch));
  // The smallest 4^h >= samples: less than 4 times as large.
  const int half_bits = (static_cast<int>(std::bit_width(count - 1)) + 1) / 2;
  auto value = static_cast<std::uint64_t>(global_index % samples);
  // Cycle walking: the walk along the permutation's cycle, started inside [0, samples),
  // must come back to it; skipping what lies outside keeps it a bijection.
  do value = permute(function, half_bits, value);
  while (value >= count);
  return static_cast<std::int64_t>(value);
}

}  // namespace trireme::train
