// Buffer, Arena and the ledger of bytes.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/memory.hpp"

namespace trireme {
namespace {

constexpr MemoryClass use =
    MemoryClass::optimizer;  // nothing else in this program uses it

TEST(Buffer, IsZeroAlignedAndEnteredInTheLedger) {
  const MemoryUse before = memory_use(use);
  {
    const Buffer buffer(Device::host(), DType::f32, {3, 5}, use, "test");
    EXPECT_EQ(buffer.bytes(), 60u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.view().raw()) % 64, 0u);
    const auto values = buffer.view().span<float>();
    EXPECT_TRUE(
        std::all_of(values.begin(), values.end(), [](float x) { return x == 0; }));
    EXPECT_EQ(memory_use(use).bytes, before.bytes + 60);
    EXPECT_EQ(memory_use(use).allocations, before.allocations + 1);
  }
  EXPECT_EQ(memory_use(use).bytes, before.bytes);
  EXPECT_GE(memory_use(use).peak_bytes, before.bytes + 60);
}

TEST(Buffer, MovesWithoutCountingTwice) {
  const std::int64_t before = memory_use(use).bytes;
  {
    Buffer first(Device::host(), DType::u8, {100}, use, "first");
    void* const memory = first.view().raw();
    Buffer second(Device::host(), DType::u8, {40}, use, "second");
    EXPECT_EQ(memory_use(use).bytes, before + 140);
    second = std::move(first);
    EXPECT_EQ(second.view().raw(), memory);
    EXPECT_EQ(memory_use(use).bytes, before + 100) << "what was overwritten is released";
    Buffer third(std::move(second));
    EXPECT_EQ(third.view().raw(), memory);
    EXPECT_EQ(memory_use(use).bytes, before + 100);
  }
  EXPECT_EQ(memory_use(use).bytes, before);
}

TEST(Buffer, OnMetaAndWithoutElementsHoldsNothing) {
  const std::int64_t before = memory_allocations();
  const Buffer meta(Device::meta(), DType::f64, {1 << 20, 1 << 20}, use, "huge");
  EXPECT_EQ(meta.view().raw(), nullptr);
  EXPECT_EQ(meta.bytes(), std::size_t{8} << 40);
  const Buffer none(Device::host(), DType::f64, {0, 7}, use, "none");
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_EQ(memory_allocations(), before);
}

TEST(Buffer, NamesWhatCannotBeHad) {
  const std::int64_t before = memory_use(use).bytes;
  try {
    // More than a 48-bit address space.
    const Buffer buffer(Device::host(), DType::u8, {std::int64_t{1} << 50}, use, "whale");
    FAIL() << "a petabyte was had";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::resources);
    EXPECT_NE(std::string(error.what()).find("'whale'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("1.00 PiB"), std::string::npos);
  }
  EXPECT_EQ(memory_use(use).bytes, before);
}

// The same calls as on a host: take 3 floats, then in a scope 5 and 40 doubles.
std::size_t peak_of(Arena arena) {
  const TensorView low = arena.take(DType::f32, {3}, "low");
  EXPECT_EQ(arena.mark(), 64u) << "rounded up to the alignment";
  {
    const ArenaScope scope(arena);
    arena.take(DType::f64, {5}, "high");
    arena.take(DType::f64, {40}, "higher");
  }
  EXPECT_EQ(arena.mark(), 64u);
  arena.take(DType::u8, {1}, "last");  // lower than the peak
  EXPECT_EQ(low.shape(), (Shape{3}));
  return arena.peak_bytes();
}

TEST(Arena, NeedsOnMetaWhatItNeedsOnTheHost) {
  const std::size_t needed = peak_of(Arena(Device::meta(), 0, use, "arena"));
  EXPECT_EQ(needed, 64u + 64u + 320u);
  EXPECT_EQ(peak_of(Arena(Device::host(), needed, use, "arena")), needed);
  EXPECT_THROW(peak_of(Arena(Device::host(), needed - 1, use, "arena")), Error);
}

TEST(Arena, ReusesWhatIsReleasedAndNeverOverlaps) {
  Arena arena(Device::host(), 1024, use, "arena");
  const TensorView a = arena.take(DType::u8, {65}, "a");
  const TensorView b = arena.take(DType::u8, {1}, "b");
  EXPECT_EQ(b.data<std::uint8_t>() - a.data<std::uint8_t>(), 128);
  arena.release(128);
  EXPECT_EQ(arena.take(DType::f32, {2}, "c").raw(), b.raw());
  EXPECT_THROW(arena.release(4096), Error);
  arena.reset();
  EXPECT_EQ(arena.take(DType::u8, {1024}, "all").raw(), a.raw());
  EXPECT_THROW(arena.take(DType::u8, {1}, "more"), Error);
}

TEST(Ledger, NamesItsClasses) {
  EXPECT_EQ(name_of(MemoryClass::weights), "weights");
  EXPECT_EQ(name_of(MemoryClass::data), "data");
}

}  // namespace
}  // namespace trireme
