// Unicode's tables hold the sets that the reference knows, and normal forms follow them.
// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.hpp"

#include <gtest/gtest.h>

#include <random>

#include "text/clusters.hpp"
#include "text/normal_form.hpp"
#include "text/older_unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

template <class Belongs>
int count(const Belongs& belongs) {
  int found = 0;
  for (char32_t code = 0; code < code_points_end; ++code)
    if ((code < 0xD800 || code > 0xDFFF) && belongs(code)) ++found;
  return found;
}

// Sizes as the reference's engine has them, measured over all code points.
TEST(Unicode, SetsHaveTheSizesOfTheReference) {
  const auto size = [](std::string_view name) {
    const Categories set = categories_named(name);
    return count([&](char32_t code) { return is_in(code, set); });
  };
  EXPECT_EQ(size("L"), 141028);
  EXPECT_EQ(size("Letter"), 141028);
  EXPECT_EQ(size("N"), 1911);
  EXPECT_EQ(size("P"), 855);
  EXPECT_EQ(size("S"), 8514);
  EXPECT_EQ(size("M"), 2501);
  EXPECT_EQ(size("Lu"), 1858);
  EXPECT_EQ(size("Ll"), 2258);
  EXPECT_EQ(size("Lt"), 31);
  EXPECT_EQ(size("Lm"), 404);
  EXPECT_EQ(size("Lo"), 136477);
  EXPECT_EQ(count(is_space), 25);
  EXPECT_EQ(count(is_word), 144671);
  EXPECT_EQ(count(is_numeric), 1911 + 10 + 3);
  EXPECT_EQ(categories_named("Klingon"), 0u);
}

std::string in_form(std::string_view text, NormalForm form) {
  std::vector<PlacedChar> chars;
  for (const char32_t code : code_points(text)) chars.push_back({code, 0, 0});
  std::string out;
  for (const PlacedChar& c : normalized(chars, form)) append(out, c.code);
  return out;
}

// Examples of Unicode Standard Annex 15, and characters younger than Unicode 9.0.
TEST(Unicode, NormalForms) {
  EXPECT_EQ(in_form("\u212B", NormalForm::nfc), "\u00C5");
  EXPECT_EQ(in_form("\u1E9B\u0323", NormalForm::nfc), "\u1E9B\u0323");
  EXPECT_EQ(in_form("\u1E9B\u0323", NormalForm::nfd), "\u017F\u0323\u0307");
  EXPECT_EQ(in_form("\u1E9B\u0323", NormalForm::nfkc), "\u1E69");
  EXPECT_EQ(in_form("\u1E9B\u0323", NormalForm::nfkd), "s\u0323\u0307");
  EXPECT_EQ(in_form("\uAC01", NormalForm::nfd), "\u1100\u1161\u11A8");
  EXPECT_EQ(in_form("\u1100\u1161\u11A8", NormalForm::nfc), "\uAC01");
  EXPECT_EQ(in_form("q\u0307\u0323", NormalForm::nfc), "q\u0323\u0307");
  EXPECT_EQ(in_form("\u0344", NormalForm::nfc), "\u0308\u0301");  // never composed again
  EXPECT_EQ(in_form("\u32FF", NormalForm::nfkc), "\u32FF");
  EXPECT_EQ(in_form("a\u1DF6\u0323", NormalForm::nfd), "a\u1DF6\u0323");
}

TEST(Unicode, Clusters) {
  const auto clusters = [](std::string_view text) {
    std::vector<std::size_t> ends;
    for (std::size_t at = 0; at < text.size();)
      ends.push_back(at = cluster_end(text, at));
    return ends;
  };
  EXPECT_EQ(clusters("e\u0301x"), (std::vector<std::size_t>{3, 4}));
  EXPECT_EQ(clusters("\r\n\n"), (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(clusters("\U0001F468\u200D\U0001F469x"), (std::vector<std::size_t>{11, 12}));
  EXPECT_EQ(clusters("\U0001F1E9\U0001F1EA\U0001F1EB"),
            (std::vector<std::size_t>{8, 12}));
  EXPECT_EQ(clusters("\uAC00\u11A8\u1100"), (std::vector<std::size_t>{6, 9}));
  EXPECT_EQ(clusters("\u0915\u094D\u0937"), (std::vector<std::size_t>{9}));
}

// Looking back from a place gives what going forward gives.
TEST(Unicode, ClustersFromWithin) {
  std::mt19937 random(3);
  const std::u32string letters =
      U"a\r\n\u0301\u200D\u0600\u0903\u1100\u1161\u11A8\uAC00\uAC01\U0001F468\u00A9"
      U"\U0001F1E9\U0001F1EA\U0001F3FB";
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) append(text, letters[random() % letters.size()]);
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size(); at += code_point_at(text, at).bytes) {
      if (at == end) end = cluster_end(text, at);
      const std::size_t next = at + code_point_at(text, at).bytes;
      ASSERT_EQ(goes_on(text, next), next != end && next < text.size())
          << testing::PrintToString(text) << " at " << next;
    }
  }
  EXPECT_FALSE(goes_on("\u0915\u094D\u0937", 6));  // a conjunct is no rule there
}

TEST(Utf8, RepairsByLongestBeginnings) {
  EXPECT_EQ(replace_invalid("a\xFF"
                            "b"),
            "a\uFFFDb");
  EXPECT_EQ(replace_invalid("\xE2\x82"), "\uFFFD");
  EXPECT_EQ(replace_invalid("\xE2\x82\xE2\x82\xAC"), "\uFFFD\u20AC");
  EXPECT_EQ(replace_invalid("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
}

// How many code points the library (0.23.3) cuts out, strips or cleans away, asked for
// each of them.
TEST(OlderUnicode, HasTheLibrarysSets) {
  EXPECT_EQ(count(was_punctuation), 726 - 9);  // nine signs of ASCII are symbols
  EXPECT_EQ(count(was_nonspacing), 1567);
  EXPECT_EQ(count(was_control), 137681 + 3 - 1);  // line ends and the tab; U+FFFD
  EXPECT_TRUE(was_accent(0x1CF2) && was_accent(0x301) && !was_accent(0x111C9));
}

}  // namespace
}  // namespace trireme::text
