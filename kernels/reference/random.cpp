// Philox 4 x 32 as the paper writes it.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/random.hpp"

namespace trireme::kernels::reference {
namespace {

struct Halves {
  std::uint32_t high, low;
};

// The 64-bit product by the rule of long multiplication.
Halves multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t a0 = a & 0xffff, a1 = a >> 16, b0 = b & 0xffff, b1 = b >> 16;
  const std::uint32_t first = a0 * b0;
  const std::uint32_t second = a1 * b0 + (first >> 16);  // at most 2^32 - 2^16
  const std::uint32_t third = a0 * b1 + (second & 0xffff);
  return {a1 * b1 + (second >> 16) + (third >> 16), third << 16 | (first & 0xffff)};
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (std::uint32_t round = 0; round < 10; ++round) {
    const std::uint32_t key_0 = key[0] + round * 0x9E3779B9u;  // the golden ratio
    const std::uint32_t key_1 = key[1] + round * 0xBB67AE85u;  // sqrt(3) - 1
    const Halves left = multiply(0xD2511F53u, counter[0]);
    const Halves right = multiply(0xCD9E8D57u, counter[2]);
    counter = {right.high ^ counter[1] ^ key_0, right.low, left.high ^ counter[3] ^ key_1,
               left.low};
  }
  return counter;
}

}  // namespace trireme::kernels::reference
