// Variables of the environment: their texts, and those of libraries, removed by prefix.
// SPDX-License-Identifier: Apache-2.0
#include "base/environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace trireme {
namespace {

TEST(Environment, ForgetsByPrefixAndKeepsByName) {
  for (const char* const name : {"SOMELIB_A", "SOMELIB_B", "SOMELIB_KEPT", "SOMELIBRARY",
                                 "OTHER_SOMELIB_A", "OTHERLIB_"})
    ::setenv(name, "SOMELIB_A=1", 1);
  EXPECT_TRUE(forget_variables({"SOMELIB_", "OTHERLIB_"}, {"SOMELIB_KEPT"}));
  for (const char* const gone : {"SOMELIB_A", "SOMELIB_B", "OTHERLIB_"})
    EXPECT_EQ(std::getenv(gone), nullptr) << gone;
  for (const char* const left : {"SOMELIB_KEPT", "SOMELIBRARY", "OTHER_SOMELIB_A"})
    EXPECT_STREQ(std::getenv(left), "SOMELIB_A=1") << left;
}

TEST(Environment, GivesTheTextOfAVariable) {
  ::setenv("TRIREME_TEST_TEXT", "a b", 1);
  EXPECT_EQ(environment_text("TRIREME_TEST_TEXT"), "a b");
  ::unsetenv("TRIREME_TEST_TEXT");
  EXPECT_EQ(environment_text("TRIREME_TEST_TEXT"), "");
}

}  // namespace
}  // namespace trireme
