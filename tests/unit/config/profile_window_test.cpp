// Steps and ranks of metrics.profile: what can be written, and what is wrong.
// SPDX-License-Identifier: Apache-2.0
#include "config/profile_window.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/error.hpp"

namespace trireme::config {
namespace {

// The numbers up to 20 that `has` holds of, as "1 2 5".
template <class Has>
std::string numbers(const Has& has) {
  std::string text;
  for (std::int64_t i = 0; i <= 20; ++i)
    if (has(i)) text += (text.empty() ? "" : " ") + std::to_string(i);
  return text;
}
std::string steps(const ProfileWindow& w) {
  return numbers([&](std::int64_t step) { return w.has_step(step); });
}
std::string ranks(const ProfileWindow& w) {
  return numbers([&](std::int64_t rank) { return w.has_rank(rank); });
}

TEST(ProfileWindow, StepsAndRanks) {
  const ProfileWindow window = parse_profile("10-12@0,3");
  EXPECT_EQ(steps(window), "10 11 12");
  EXPECT_EQ(ranks(window), "0 3");
  EXPECT_EQ(window.last_step(), 12);
  EXPECT_EQ(window.last_rank(), 3);
}

TEST(ProfileWindow, SeveralWindows) {
  const ProfileWindow window = parse_profile("2,5-6,20@1-2,7-7");
  EXPECT_EQ(steps(window), "2 5 6 20");
  EXPECT_EQ(ranks(window), "1 2 7");
}

TEST(ProfileWindow, WithoutRanksItIsTheFirst) {
  EXPECT_EQ(ranks(parse_profile("3")), "0");
  EXPECT_EQ(steps(parse_profile("3")), "3");
}

TEST(ProfileWindow, AllRanks) {
  const ProfileWindow window = parse_profile("3@all");
  EXPECT_TRUE(window.has_rank(0) && window.has_rank(1'000'000));
  EXPECT_EQ(window.last_rank(), -1);  // any number of ranks has all
}

TEST(ProfileWindow, NothingIsNamed) {
  const ProfileWindow window = parse_profile("");
  EXPECT_EQ(steps(window), "");
  EXPECT_EQ(ranks(window), "");
  EXPECT_EQ(window.last_step(), -1);
}

TEST(ProfileWindow, WhatIsWrongIsSaid) {
  const std::pair<const char*, const char*> cases[] = {
      {"x", "\"x\" is neither a step nor a span"},
      {"3-", "\"3-\" is neither a step nor a span"},
      {"-3", "\"-3\" is neither a step nor a span"},
      {"1-2-3", "\"1-2-3\" is neither a step"},
      {" 3", "\" 3\" is neither a step"},
      {"3,", "\"\" is neither a step"},
      {"99999999999999999999", "is neither a step"},
      {"0", "steps are counted from 1"},
      {"5-3", "\"5-3\" ends before it begins: write \"3-5\""},
      {"5,3", "step 3 does not lie behind those before it"},
      {"3-5,5", "step 5 does not lie behind"},
      {"@0", "no steps are named: write \"10-12@0,3\""},
      {"3@", "no ranks are named"},
      {"3@x", "\"x\" is neither a rank"},
      {"3@1,0", "rank 0 does not lie behind"},
      {"3@0@1", "\"0@1\" is neither a rank"},
      {"3@all,1", "\"all\" is neither a rank"},
  };
  for (const auto& [text, words] : cases) {
    try {
      parse_profile(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
          << text << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace trireme::config
