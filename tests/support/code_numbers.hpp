// Numbers for tests of codes, and a digest, as scripts of tests/reference have them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "base/fnv.hpp"

namespace trireme::test {

// FNV-1a, 64 bits.
inline std::string code_digest(const void* bytes, std::size_t count) {
  std::ostringstream text;
  text.width(16);
  text.fill('0');
  text << std::hex << fnv64({static_cast<const char*>(bytes), count});
  return text.str();
}

// Cubes of uniform numbers between -1 and 1, as in make_block_codes.py.
inline std::vector<float> code_numbers(std::int64_t count, std::uint32_t state) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const float x =
        static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) /
        static_cast<float>(1 << 23);
    const float square = x * x;
    out.push_back(square * x);
  }
  return out;
}

}  // namespace trireme::test
