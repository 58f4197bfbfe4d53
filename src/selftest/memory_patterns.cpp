// A test of memory: patterns that are written and read back.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/memory_patterns.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "base/stopwatch.hpp"

namespace trireme::selftest {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t block_bytes = 4 << 20;
constexpr std::int64_t word_bytes = sizeof(std::uint64_t);
constexpr std::array<std::string_view, 4> patterns = {"0101", "1010", "numbers",
                                                      "numbers inverted"};

// Words whose numbers differ in one bit, as addresses do where a line is broken, differ
// in many bits.
std::uint64_t word(std::size_t pattern, std::int64_t number) {
  const std::uint64_t low =
      pattern < 2 ? 0x5555555555555555
                  : (static_cast<std::uint64_t>(number) + 1) * 0x9E3779B97F4A7C15;
  return pattern % 2 == 0 ? low : ~low;
}

Buffer bytes_on(Device device, std::int64_t bytes) {
  return {device, DType::u8, {bytes}, MemoryClass::workspace, "memory test"};
}

class Patterns {
 public:
  Patterns(Device device, std::int64_t bytes)
      : bytes_(bytes),
        stream_(device),
        tested_(bytes_on(device, bytes)),
        right_(bytes_on(Device::host(), block_bytes)),
        read_(bytes_on(Device::host(), block_bytes)) {}

  // The whole memory is written before any of it is read, so that no cache has it.
  // spoiled: the byte that is written wrong, or -1.
  void write(std::size_t pattern, std::int64_t spoiled) {
    for (std::int64_t at = 0; at < bytes_; at += block_bytes) {
      const TensorView right = make(pattern, at);
      std::uint8_t* const first = right.data<std::uint8_t>();
      if (spoiled >= at && spoiled < at + right.elements()) first[spoiled - at] ^= 1;
      copy_bytes(stream_, right, tested_.view().rows(at, right.elements()));
      stream_.synchronize();
    }
  }

  std::optional<WrongByte> compare(std::size_t pattern) {
    for (std::int64_t at = 0; at < bytes_; at += block_bytes) {
      const TensorView right = make(pattern, at);
      const TensorView read = read_.view().rows(0, right.elements());
      copy_bytes(stream_, tested_.view().rows(at, right.elements()), read);
      stream_.synchronize();
      if (std::memcmp(read.raw(), right.raw(), right.bytes()) == 0) continue;
      const auto found = read.span<std::uint8_t>(), wanted = right.span<std::uint8_t>();
      const auto [a, b] = std::mismatch(found.begin(), found.end(), wanted.begin());
      return WrongByte{at + (a - found.begin()), *a, *b, patterns[pattern]};
    }
    return std::nullopt;
  }

 private:
  // What the block that begins with byte `at` ought to hold.
  TensorView make(std::size_t pattern, std::int64_t at) {
    auto* const words = static_cast<std::uint64_t*>(right_.view().raw());
    const std::int64_t count = std::min(block_bytes, bytes_ - at);
    for (std::int64_t i = 0; i * word_bytes < count; ++i)
      words[i] = word(pattern, at / word_bytes + i);
    return right_.view().rows(0, count);
  }

  std::int64_t bytes_;
  Stream stream_;
  Buffer tested_, right_, read_;
};

}  // namespace

MemoryTest test_memory(Device device, std::int64_t bytes, double seconds, bool spoiled) {
  Patterns memory(device, bytes);
  MemoryTest test;
  double passes = 0, elapsed = 0;
  const auto start = Clock::now();
  do {
    for (std::size_t p = 0; p < patterns.size() && !test.wrong; ++p) {
      memory.write(p, spoiled && p == 2 ? bytes / 2 : -1);
      test.wrong = memory.compare(p);
      ++passes;
    }
    elapsed = seconds_since(start);
  } while (elapsed < seconds && !test.wrong);
  test.rate = 2 * passes * static_cast<double>(bytes) / elapsed;
  return test;
}

}  // namespace trireme::selftest
