// Numbers and text that come from outside: parsed and shown, whatever they are.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "base/number.hpp"
#include "base/text.hpp"

namespace trireme {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Number, IntegersAreWholeAndFit) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<std::int64_t>("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", " ", "4x", " 4", "4 ", "+4", "4.0", "1e3", "0x10", "--4",
                           "-", "2147483648", "99999999999999999999"})
    EXPECT_FALSE(parse_number<int>(text)) << text;
  EXPECT_FALSE(parse_number<std::uint64_t>("-1"));
  EXPECT_FALSE(parse_number<std::int64_t>("9223372036854775808"));
  EXPECT_EQ(parse_hexadecimal("00ff"), 255u);
  EXPECT_FALSE(parse_hexadecimal("0xff"));
  EXPECT_FALSE(parse_hexadecimal("10000000000000000"));
}

TEST(Number, DoublesReadBackWhateverTheyAre) {
  for (const double value : {0.0, -0.0, 1e-310, 5e-324, -2.5e-320, 1.7976931348623157e308,
                             infinity, -infinity}) {
    const auto read = parse_number<double>(exact(value));
    ASSERT_TRUE(read) << value;
    EXPECT_EQ(*read, value);
    EXPECT_EQ(std::signbit(*read), std::signbit(value));
  }
  EXPECT_TRUE(std::isnan(parse_number<double>("nan").value()));
  EXPECT_TRUE(std::isnan(parse_number<double>("-nan").value()));
}

TEST(Number, DoublesOutOfRange) {
  for (const char* text : {"1e-400", "0.0000001e-330", "123e-99999999999999999999",
                           "1E-999", "0e99999999999999999999"})
    EXPECT_EQ(parse_number<double>(text), 0.0) << text;
  EXPECT_TRUE(std::signbit(parse_number<double>("-1e-400").value()));
  for (const char* text : {"1e309", "-1e400", "1e99999999999999999999", "1e+400"})
    EXPECT_FALSE(parse_number<double>(text)) << text;
  for (const char* text :
       {"", "1e-310x", "1,5", "0x1p3", "1e", "infinite", "nanx", " 1", "+1"})
    EXPECT_FALSE(parse_number<double>(text)) << text;
}

TEST(Text, IsWellFormedUtf8) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(valid_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
            "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(valid_utf8("\xff"
                       "a"),
            bad + "a");
  EXPECT_EQ(valid_utf8("\xc3"), bad) << "cut short";
  EXPECT_EQ(valid_utf8("\xc0\xaf"), bad + bad) << "overlong";
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), bad + bad + bad) << "a surrogate";
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), bad + bad + bad + bad) << "above 0x10FFFF";
}

TEST(Text, OneLineShowsWhatItHolds) {
  EXPECT_EQ(one_line("a\r\n\tb\x07\x7f"), "a   b??");
  EXPECT_EQ(one_line("\xc2\x85\xe2\x80\xa8\xe2\x80\xaex"), "???x");
  EXPECT_EQ(for_terminal("a\x1b]0;title\x07\n\tb\xff"), "a?]0;title?\n\tb\xff");
}

TEST(Text, WordsAreTrimmedAndJoined) {
  EXPECT_EQ(trimmed(" \ta b\r"), "a b");
  EXPECT_EQ(trimmed(" \t\r"), "");
  EXPECT_EQ(joined({}, ", "), "");
  EXPECT_EQ(joined({"a"}, ", "), "a");
  EXPECT_EQ(joined({"a", "", "b"}, ", "), "a, , b");
}

TEST(Text, IsSplitAtEachSeparator) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("a,bc,d", ','), (Parts{"a", "bc", "d"}));
  EXPECT_EQ(split("a b", ','), (Parts{"a b"}));
  EXPECT_EQ(split("", ','), (Parts{""}));
  EXPECT_EQ(split(",", ','), (Parts{"", ""}));
  EXPECT_EQ(split("a,,b", ','), (Parts{"a", "", "b"}));
  EXPECT_EQ(split("a,b,", ','), (Parts{"a", "b", ""}));
}

TEST(Format, HoldsWhatDoublesHold) {
  for (const double value : {1e308, -1e308, infinity, 1e-310}) {
    EXPECT_LT(human_count(value).size(), 32u);
    EXPECT_LT(human_bytes(value).size(), 32u);
    EXPECT_LT(human_seconds(value).size(), 32u);
    EXPECT_LT(fixed(value, 1000).size(), 512u);
  }
}

}  // namespace
}  // namespace trireme
