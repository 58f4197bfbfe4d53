// Timeline: which ranges it sees, how they nest, and what it holds.
// SPDX-License-Identifier: Apache-2.0
#include "base/timeline.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/trace_range.hpp"

namespace trireme {
namespace {

class TimelineTest : public testing::Test {
 protected:
  ~TimelineTest() override {
    timeline().end();
    timeline().release();
  }
  static std::vector<Timeline::Event> events() {
    std::vector<Timeline::Event> all(timeline().size());
    all.resize(timeline().copy(0, all));
    return all;
  }
  // In the order in which they ended.
  static std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const Timeline::Event& event : events()) all.emplace_back(event.name);
    return all;
  }
};

using Names = std::vector<std::string>;

TEST_F(TimelineTest, SeesNothingWhileItIsOff) {
  const std::int64_t before = memory_use(MemoryClass::data).bytes;
  {
    const TraceRange range("unseen");
    Timeline::note("number", 1);
    Timeline::note_group("group");
  }
  EXPECT_EQ(timeline().size(), 0u);
  timeline().begin();
  EXPECT_EQ(memory_use(MemoryClass::data).bytes - before,
            static_cast<std::int64_t>(Timeline::bytes));
  timeline().end();
  { const TraceRange range("unseen"); }
  EXPECT_EQ(timeline().size(), 0u);
  timeline().release();
  EXPECT_EQ(memory_use(MemoryClass::data).bytes, before);
}

TEST_F(TimelineTest, RangesNestAndHaveNotes) {
  timeline().begin();
  {
    const TraceRange outer("outer");
    Timeline::note("step", 7);
    {
      const TraceRange inner("inner");
      Timeline::note("operation", "all_reduce");
      Timeline::note_group("a name of more letters than there is room for");
    }
    Timeline::note("bytes", 12);
  }
  ASSERT_EQ(names(), (Names{"inner", "outer"}));
  const auto inner = events()[0], outer = events()[1];
  EXPECT_LE(outer.begin_ns, inner.begin_ns);
  EXPECT_LE(inner.begin_ns, inner.end_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
  EXPECT_STREQ(outer.notes[0].key, "step");
  EXPECT_EQ(outer.notes[0].number, 7);
  EXPECT_STREQ(outer.notes[1].key, "bytes");
  EXPECT_EQ(outer.notes[2].key, nullptr);
  EXPECT_STREQ(inner.notes[0].word, "all_reduce");
  EXPECT_STREQ(inner.group.data(), "a name of more lett");
}

// As of a thread that computes while a window begins and ends.
TEST_F(TimelineTest, RangesThatCrossAnEndOfItAreUnseen) {
  {
    const TraceRange before("before");
    timeline().begin();
    { const TraceRange within("within"); }
  }
  EXPECT_EQ(names(), (Names{"within"}));
  for (int i = 0; i < 40; ++i) {
    timeline().begin();
    const TraceRange behind("behind");
    timeline().end();
  }
  timeline().begin();
  { const TraceRange again("again"); }
  ASSERT_EQ(names(), (Names{"again"}));
  timeline().add({.name = "older", .begin_ns = events()[0].begin_ns - 1'000'000'000});
  EXPECT_EQ(names(), (Names{"again"}));
}

TEST_F(TimelineTest, EachThreadHasItsRow) {
  timeline().begin();
  const TraceRange outer("outer");
  { const TraceRange mine("mine"); }
  std::thread([] { const TraceRange other("other"); }).join();
  ASSERT_EQ(names(), (Names{"mine", "other"}));
  EXPECT_EQ(events()[0].thread, 0);
  EXPECT_EQ(events()[1].thread, 1);
}

void descend(int depth) {
  if (depth == 0) return;
  const TraceRange range("level");
  descend(depth - 1);
}

TEST_F(TimelineTest, WhatIsTooDeepIsUnseen) {
  timeline().begin();
  descend(40);
  EXPECT_EQ(timeline().size(), 32u);
  { const TraceRange next("next"); }
  EXPECT_EQ(names().back(), "next");
}

TEST_F(TimelineTest, WhatIsTooMuchIsCounted) {
  timeline().begin();
  for (std::size_t i = 0; i < Timeline::capacity + 3; ++i) const TraceRange range("many");
  EXPECT_EQ(timeline().size(), Timeline::capacity);
  EXPECT_EQ(timeline().dropped(), 3);
  EXPECT_FALSE(timeline().clear(5));
  EXPECT_TRUE(timeline().clear(Timeline::capacity));
  EXPECT_EQ(timeline().size(), 0u);
  { const TraceRange next("next"); }
  EXPECT_EQ(names(), (Names{"next"}));
}

}  // namespace
}  // namespace trireme
