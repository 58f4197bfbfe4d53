// What the ledger of memory counts, by class, and its differences.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "base/memory.hpp"

namespace trireme::test {

using Bytes = std::array<std::int64_t, memory_classes>;

inline Bytes ledger() {
  Bytes bytes{};
  for (int c = 0; c < memory_classes; ++c)
    bytes[static_cast<std::size_t>(c)] = memory_use(static_cast<MemoryClass>(c)).bytes;
  return bytes;
}

inline Bytes minus(Bytes a, const Bytes& b) {
  for (std::size_t c = 0; c < a.size(); ++c) a[c] -= b[c];
  return a;
}

inline std::int64_t of(const Bytes& bytes, MemoryClass c) {
  return bytes[static_cast<std::size_t>(c)];
}

}  // namespace trireme::test
