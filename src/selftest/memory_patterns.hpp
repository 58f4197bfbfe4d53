// A test of memory: patterns that are written and read back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/device.hpp"

namespace trireme::selftest {

struct WrongByte {
  std::int64_t offset = 0;  // from the first byte that was tested
  int found = 0, wanted = 0;
  std::string_view pattern;
};

struct MemoryTest {
  double rate = 0;                 // bytes written and read a second
  std::optional<WrongByte> wrong;  // the first
};

// Fills `bytes` (at least 1) of a device's memory with one pattern after the other, 0101,
// 1010, each word's own number, and that inverted, and reads each back; all four once,
// then again until `seconds` are over or a byte is wrong. On a GPU every byte passes
// through the host. spoiled: writes one byte wrong, to see that it is found. Throws as
// Buffer where there is no such memory.
MemoryTest test_memory(Device device, std::int64_t bytes, double seconds, bool spoiled);

}  // namespace trireme::selftest
