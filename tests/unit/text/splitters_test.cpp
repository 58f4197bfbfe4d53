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
  EXPECT_EQ(pieces("b+\\B", "_bb- bbb"), (Texts{"b", "bb"}));
  EXPECT_EQ(pieces("B\u00E9?\\B", "B\u00E9\u3000"), (Texts{"B"}));
  EXPECT_EQ(pieces("(a|b)+\\1", "abab aab ba abb"), (Texts{"aa", "abb"}));
  EXPECT_EQ(pieces("(?:(a)|b)*\\1", "ab aba baa b"), (Texts{"aba", "baa"}));
  EXPECT_EQ(pieces("(a)?b\\1", "bab aba b"), (Texts{"aba"}));
  EXPECT_EQ(pieces("((a)|b)+\\2", "abaab bb ba"), (Texts{"abaa"}));
  EXPECT_EQ(pieces("(?:a{2}){1,2}+(b)\\1", "aaaabb"), (Texts{"aaaabb"}));
  EXPECT_EQ(pieces("(?m:a.)b|(?-m:c.d)", "a\nb c\nd cxd"), (Texts{"a\nb", "cxd"}));
}

TEST(Regex, HasNamedGroupsOfOniguruma) {
  EXPECT_EQ(pieces("(?<n>a|b)x\\k<n>", "axa bxa bxb"), (Texts{"axa", "bxb"}));
  EXPECT_EQ(pieces("(?<n>a)(b)\\k<n>", "aba abb"), (Texts{"aba"}));
  EXPECT_EQ(pieces("(b)(?<n>a)\\k<n>", "baa bab"), (Texts{"baa"}));
  EXPECT_EQ(pieces("(?<one>a)(?<two>b)\\k<two>\\k<one>", "abba abab"), (Texts{"abba"}));
  EXPECT_EQ(pieces("(?'q'[\"'])\\w+\\k'q'", "'ab' \"c' \"d\""), (Texts{"'ab'", "\"d\""}));
  EXPECT_EQ(pieces("(?<\u00E9_1>a+)-\\k<\u00E9_1>", "aa-a aa-aa"),
            (Texts{"a-a", "aa-aa"}));
  EXPECT_EQ(pieces("(?:(?<n>a)|b)*\\k<n>", "ab aba baa b"), (Texts{"aba", "baa"}));
  EXPECT_EQ(pieces("(a)(b)\\k<2>\\k<-2>", "abba abab"), (Texts{"abba"}));
  EXPECT_EQ(pieces("(a)\\k<1>0", "aa0 a0"), (Texts{"aa0"}));
  EXPECT_EQ(pieces("[(?<n>]+(a)\\1", "?aa(a"), (Texts{"?aa"}));
}

TEST(Regex, KeepsAndGoesOnAsOniguruma) {
  EXPECT_EQ(pieces("a\\Kb", "ab bab"), (Texts{"b", "b"}));
  EXPECT_EQ(pieces("a\\K", "aa"), (Texts{"", ""}));
  EXPECT_EQ(pieces("\\s\\K\\w+|\\d", "ab cd 1 e2"), (Texts{"cd", "1", "e2"}));
  EXPECT_EQ(pieces("(?:a\\Kx|a)b", "ab axb"), (Texts{"ab", "xb"}));
  EXPECT_EQ(pieces("(?:a\\K)+b|(?>c\\K)d", "aab cd"), (Texts{"b", "d"}));
  EXPECT_EQ(pieces("a\\Kb\\Kc", "abc"), (Texts{"c"}));
  EXPECT_EQ(pieces("\\Ga", "aaba"), (Texts{"a", "a"}));
  EXPECT_EQ(pieces("\\G\\w{1,2}", "abcdef gh"), (Texts{"ab", "cd", "ef"}));
  EXPECT_EQ(pieces("(?<=\\Ga)b", "abab bab"), (Texts{"b", "b"}));
  EXPECT_EQ(pieces("(?:\\Ga|b)", "aabaa a"), (Texts{"a", "a", "b", "a", "a"}));
}

TEST(Regex, HasBordersOfClustersOfOniguruma) {
  EXPECT_EQ(pieces("\\y.", "a\u0301b\u0301"), (Texts{"a", "b"}));
  EXPECT_EQ(pieces("(?m:.)\\y", "\r\na"), (Texts{"\n", "a"}));
  EXPECT_EQ(pieces(".\\Y", "a\u0301b"), (Texts{"a"}));
  EXPECT_EQ(pieces("\\Y\\p{L}", "\u0915\u094D\u0937"), Texts());
  EXPECT_EQ(pieces("(?m:.+?)\\y", "a\u0301\u0302b\r\n\U0001F468\u200D\U0001F469"),
            (Texts{"a\u0301\u0302", "b", "\r\n", "\U0001F468\u200D\U0001F469"}));
}

TEST(Regex, HasNamesOfPosixByUnicode) {
  EXPECT_EQ(pieces("[[:alpha:]]+", "ab1\u00E9\u0345\u24B6_\u4E2D"),
            (Texts{"ab", "\u00E9\u0345\u24B6", "\u4E2D"}));
  EXPECT_EQ(pieces("[[:^alpha:][:digit:]]+", "a1\u0664 b"), (Texts{"1\u0664 "}));
  EXPECT_EQ(pieces("[^[:space:][:punct:]]+", "a$b \u20ACc.d\u3000e"),
            (Texts{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(pieces("[[:word:]]+", "a_1\u00B2\u0301"), (Texts{"a_1", "\u0301"}));
  EXPECT_EQ(pieces("\\p{Word}+|\\w", "\u00B2a"), (Texts{"\u00B2a"}));
  EXPECT_EQ(pieces("[\\w]+", "\u00B2b\u00BC_\u00E9"), (Texts{"b", "_\u00E9"}));
  EXPECT_EQ(pieces("[^\\w]|[[\\p{Word}]_]", "\u00B2b\u00BC"),
            (Texts{"\u00B2", "b", "\u00BC"}));
  EXPECT_EQ(pieces("\\W|[_\\W]", "\u00B3 "), (Texts{"\u00B3", " "}));
  EXPECT_EQ(pieces("[[:upper:]][[:lower:]]*", "A\u00AA\u01C5\u2160B\u24D0"),
            (Texts{"A\u00AA", "\u2160", "B\u24D0"}));
  EXPECT_EQ(pieces("[[:alnum:]&&[^a-z]]+", "aB1\u0661c"), (Texts{"B1\u0661"}));
  EXPECT_EQ(pieces("\\p{Alpha}+", "a\u0345 1"), (Texts{"a\u0345"}));
  EXPECT_EQ(pieces("\\p{White_Space}\\p{^Upper}", "a B\tc"), (Texts{"\tc"}));
  EXPECT_EQ(pieces("[[:blank:]]+|[[:cntrl:]]", "a \t\u3000\n\u200B"),
            (Texts{" \t\u3000", "\n"}));
  EXPECT_EQ(pieces("[[:graph:]]+", "a\u00A0\u200B\U000E0001\u0378"),
            (Texts{"a", "\u200B\U000E0001"}));
  EXPECT_EQ(pieces("[[:print:]]+", "a \u2028b"), (Texts{"a ", "b"}));
  EXPECT_EQ(pieces("[[:xdigit:]]+|[[:ascii:]]", "fFg\uFF21"), (Texts{"fF", "g"}));
  EXPECT_EQ(pieces("[[:alpha:]-]+", "a-1"), (Texts{"a-"}));
}

TEST(Regex, RefusesWhatReadsInTwoWays) {
  for (const char* regex : {"[\\b]",
                            "[\\R]",
                            "[\\X]",
                            "[\\y]",
                            "(?=a\\K)b",
                            "(?<!(?:a\\K))b",
                            "a\\K*",
                            "\\G{2}a",
                            "a\\b+",
                            "\\1(a)",
                            "(a\\1)",
                            "(a)\\10",
                            "(?i:(a)\\1)",
                            "(?i)(?<n>a)\\k<n>",
                            "(?<n>a)(?<n>b)",
                            "(?<n>a)(b)\\1",
                            "(?<n>a)\\k<1>",
                            "(?<n>a\\k<n>)",
                            "(?<n>a)\\k<m>",
                            "(?<n>a)\\k<n+0>",
                            "(?<1n>a)",
                            "(?<n",
                            "(a)\\k<0>",
                            "(a)\\k<-2>",
                            "(a)\\k1",
                            "(*UCP)a",
                            "[[:alfa:]]",
                            "[[:alpha]]",
                            "[a-[:digit:]]",
                            "[[:digit:]-z]",
                            "(?i)[[:alpha:]]",
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
