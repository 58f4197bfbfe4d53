// What the system says of a process, whatever its name holds.
// SPDX-License-Identifier: Apache-2.0
#include "base/process_stat.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace trireme {
namespace {

TEST(ProcessStat, StandsBehindTheName) {
  const auto plain = parse_process_stat("123 (sleep) S 45 123 45 34816");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->state, 'S');
  EXPECT_EQ(plain->parent, 45);
  const auto odd = parse_process_stat("7 (a) R 9 (b\n) T 1 7");
  ASSERT_TRUE(odd.has_value());
  EXPECT_EQ(odd->state, 'T');
  EXPECT_EQ(odd->parent, 1);
}

TEST(ProcessStat, OfAnyOtherTextIsNone) {
  for (const char* text : {"", "123", "123 (sleep)", "123 (sleep) ", "123 (sleep) S",
                           "123 (sleep) S ", "123 (sleep) S x 1", "123 (sleep) SS 45 1"})
    EXPECT_FALSE(parse_process_stat(text).has_value()) << text;
}

TEST(ProcessStat, IsReadFromTheSystem) {
  const auto own = process_stat(::getpid());
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->parent, ::getppid());
  EXPECT_EQ(own->state, 'R');
  EXPECT_FALSE(process_stat(-1).has_value());
}

}  // namespace
}  // namespace trireme
