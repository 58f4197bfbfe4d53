// Our splitters cut as PCRE2 does by the expression that they stand for.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "base/error.hpp"
#include "text/pattern.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

const std::string caseless = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const std::string spaces = "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const std::string signs = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*";
const std::string lead = "[^\\r\\n\\p{L}\\p{N}]?";
const std::string upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const std::string lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";

std::vector<std::string> expressions() {
  const std::string cased_signs = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*";
  return {
      gpt2_regex,
      caseless + "|" + lead + "\\p{L}+|\\p{N}{1,3}" + signs + spaces,
      caseless + "|" + lead + "\\p{L}+|\\p{N}" + signs + spaces,
      caseless + "|" + lead +
          "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" + spaces,
      lead + upper + "*" + lower + "+" + caseless + "?|" + lead + upper + "+" + lower +
          "*" + caseless + "?|\\p{N}{1,3}" + cased_signs + spaces,
      lead + upper + "*" + lower + "+|" + lead + upper + "+" + lower + "*|\\p{N}" +
          cased_signs + spaces,
      "\\p{N}{1,3}",
      "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
      "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" +
          spaces};
}

// Characters of every kind that the expressions tell apart, and any others.
std::string random_text(std::mt19937& random) {
  static const std::u32string usual =
      U"aAzZsStTmMdDlLrReEvV019 '\u2019\t\r\n/.-_<$\u00A0\u3000\u2028\u0085\u180E\u017F"
      U"\u212A\u0301\u0903\u01C5\u02B0\u4E00\u3042\u00BD\u0663\U0001F600\u200D\u00AD";
  std::string text;
  for (auto left = random() % 24; left > 0; --left) {
    char32_t code = usual[random() % usual.size()];
    if (random() % 8 == 0) code = static_cast<char32_t>(random() % 0x20000);
    if (code >= 0xD800 && code <= 0xDFFF) code = U'x';
    append(text, code);
  }
  return text;
}

std::vector<Range> cuts(const Pattern& pattern, std::string_view text) {
  std::vector<Range> found;
  for_each_match(pattern, text, [&](const Range& match) { found.push_back(match); });
  std::vector<Range> at_once;
  pattern.find_all(text, at_once);
  EXPECT_EQ(at_once, found) << testing::PrintToString(text);
  return found;
}

TEST(Splitters, CutAsTheirExpressions) {
  const Json none;
  const std::string source = "test";
  for (const std::string& expression : expressions()) {
    SCOPED_TRACE(expression);
    const auto own = known_splitter(expression);
    ASSERT_NE(own, nullptr);
    const auto regex = make_regex(expression, ConfigNode(none, source));
    std::mt19937 random(7);
    for (int i = 0; i < 4000; ++i) {
      const std::string text = random_text(random);
      ASSERT_EQ(cuts(*own, text), cuts(*regex, text)) << testing::PrintToString(text);
    }
  }
}

// The version of PCRE2's own tables does not show: classes are spelled out.
TEST(Regex, HasOurUnicode) {
  const Json none;
  const std::string source = "test";
  const ConfigNode node(none, source);
  const auto matches = [&](const std::string& regex, std::string_view text) {
    const auto found = cuts(*make_regex(regex, node), text);
    return found.size() == 1 && found[0].size() == text.size();
  };
  EXPECT_TRUE(matches("\\p{L}", "\U00011F02"));  // of Unicode 15
  EXPECT_FALSE(matches("\\s", "\u180E"));
  EXPECT_TRUE(matches("[^\\S\\n]", "\u3000"));
  EXPECT_FALSE(matches("[^\\S\\n]", "\n"));
  EXPECT_TRUE(matches("\\p{^N}\\P{L}", "a1"));
  EXPECT_TRUE(matches("\\u4e00", "\u4E00"));
}

using Texts = std::vector<std::string>;

// What a pattern cuts out of a text.
Texts pieces(const std::string& regex, const std::string& text) {
  const Json none;
  const std::string source = "test";
  Texts found;
  for (const Range& range : cuts(*make_regex(regex, ConfigNode(none, source)), text))
    found.push_back(text.substr(range.begin, range.size()));
  return found;
}

// The cuts are those of Oniguruma, which the `tokenizers` library has.
TEST(Regex, HasClassesScriptsAndIntervalsOfOniguruma) {
  EXPECT_EQ(pieces(" ?[^(\\s|[.,!?\u2026\uFF0C])]+", "a(b, c! \uFF0Cd|e"),
            (Texts{"a", "b", " c", "d", "e"}));
  EXPECT_EQ(pieces("[a-z&&[^b]]+", "abcab"), (Texts{"a", "ca"}));
  EXPECT_EQ(pieces("[^a-c&&b-z]", "abcde"), (Texts{"a", "d", "e"}));
  EXPECT_EQ(pieces("[^[ab]c]", "abcd"), (Texts{"d"}));
  EXPECT_EQ(pieces("[\\p{Lu}\\p{Lo}&&[^\\p{Han}]]+", "A\u6F22\uAC00b"),
            (Texts{"A", "\uAC00"}));
  EXPECT_EQ(pieces("\\p{han}+|\\P{Latin}", "\u6F22a\u03BB\U00031350"),
            (Texts{"\u6F22", "\u03BB", "\U00031350"}));
  EXPECT_EQ(pieces("\\p{Old_Italic}\\p{Common}", "\U00010300,"), (Texts{"\U00010300,"}));
  EXPECT_EQ(pieces("[[\\x41\\u0042]\\x{43}\\]-]+", "ABC]-D"), (Texts{"ABC]-"}));
  EXPECT_EQ(pieces("a{1,2}+", "aaaaab"), (Texts{"aaaaa"}));
  EXPECT_EQ(pieces("(?:ab|c){2}+", "abcababc"), (Texts{"abcabab"}));
  EXPECT_EQ(pieces("x(?:ab){2}?", "xababxab"), (Texts{"xabab", "x"}));
  EXPECT_EQ(pieces("a{,2}b", "aaab{,2}"), (Texts{"aab"}));
  EXPECT_EQ(pieces("a{x}|{", "a{x}{"), (Texts{"a{x}", "{"}));
}

TEST(Regex, HasLineEndsClustersAndReferencesOfOniguruma) {
  EXPECT_EQ(pieces("\\h+", "aFg1\uFF21 b"), (Texts{"aF", "1", "b"}));
  EXPECT_EQ(pieces("(?i:\\H)", "a\u017FF"), (Texts{"\u017F"}));
  EXPECT_EQ(pieces("[[\\d]-\\h]", "a-1gG_x"), (Texts{"a", "-", "1"}));
  EXPECT_EQ(pieces("[^\\H\\d]\\v", "a\vg\v"), (Texts{"a\v"}));
  EXPECT_EQ(pieces("\\R{2}", "\r\n\r\n \n\n \r\n"), (Texts{"\r\n\r\n", "\n\n"}));
  EXPECT_EQ(pieces("\\r\\R", "\r\n \r\r\n"), (Texts{"\r\n", "\r\r\n"}));
  EXPECT_EQ(pieces("\\R", "\v\f\u0085\u2028\u2029\u180E").size(), 5u);
  EXPECT_EQ(pieces(".\\X", "\r\na\u0301\u0302b"), (Texts{"\r\n", "a\u0301\u0302"}));
  EXPECT_EQ(pieces("\\X\u0301", "a\u0301\u0301"), Texts());  // takes no part of it
  EXPECT_EQ(pieces("\\X+?b", "a\u0301b ab"), (Texts{"a\u0301b", " ab"}));
  EXPECT_EQ(pieces("a.\\X|\\X", "a\U0001F1E9\U0001F1EA\U0001F1EB"),
            (Texts{"a\U0001F1E9\U0001F1EA", "\U0001F1EB"}));
  EXPECT_EQ(pieces("\\X", "\u0915\u094D\u0937\U0001F468\u200D\U0001F469"),
            (Texts{"\u0915\u094D", "\u0937", "\U0001F468\u200D\U0001F469"}));
  EXPECT_EQ(pieces("\\bx|x\\b|\\B-\\B", "x xax ax-- -"),
            (Texts{"x", "x", "x", "x", "-", "-"}));
  EXPECT_EQ(pieces("(a|b)+\\1", "abab aab ba abb"), (Texts{"aa", "abb"}));
  EXPECT_EQ(pieces("(?:(a)|b)*\\1", "ab aba baa b"), (Texts{"aba", "baa"}));
  EXPECT_EQ(pieces("(a)?b\\1", "bab aba b"), (Texts{"aba"}));
  EXPECT_EQ(pieces("((a)|b)+\\2", "abaab bb ba"), (Texts{"abaa"}));
  EXPECT_EQ(pieces("(?:a{2}){1,2}+(b)\\1", "aaaabb"), (Texts{"aaaabb"}));
  EXPECT_EQ(pieces("(?m:a.)b|(?-m:c.d)", "a\nb c\nd cxd"), (Texts{"a\nb", "cxd"}));
}

TEST(Regex, RefusesWhatReadsInTwoWays) {
  for (const char* regex : {"[\\b]",
                            "[\\R]",
                            "[\\X]",
                            "\\y",
                            "\\K",
                            "\\1(a)",
                            "(a\\1)",
                            "(a)\\10",
                            "(?i:(a)\\1)",
                            "(?<n>a)",
                            "(*UCP)a",
                            "[[:alpha:]]",
                            "[a&&[:digit:]]",
                            "a{1,2}++",
                            "\\p{Greeks}",
                            "[abc",
                            "[a[b]",
                            "[a&&",
                            "[[]a]",
                            "(?i:[a&&[b]])",
                            "(?i:aSt)",
                            "a(?i)b",
                            "a)",
                            "[[a]b-\\w]",
                            "[[a]\\x{110000}]"}) {
    std::string why;
    EXPECT_FALSE(pcre2_words(regex, why)) << regex;
    EXPECT_NE(why, "") << regex;
  }
}

}  // namespace
}  // namespace trireme::text
