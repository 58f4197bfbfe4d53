// Questions with choices: how they become tokens, what is taken, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "app/choice_file.hpp"
#include "app/choice_verdicts.hpp"
#include "base/error.hpp"

namespace trireme::app {
namespace {

using Ids = std::vector<std::int32_t>;

class Choices : public testing::Test {
 protected:
  ~Choices() override { std::filesystem::remove(path_); }
  ChoiceFile read(const std::string& text, const ChoiceRule& rule = {.positions = 100}) {
    std::ofstream(path_) << text;
    return read_choices(path_, rule, bytes());
  }
  std::string refusal(const std::string& text,
                      const ChoiceRule& rule = {.positions = 100}) {
    try {
      read(text, rule);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content);
      return error.what();
    }
    return "(none)";
  }
  void expect_refused(const std::string& text, const std::string& words) {
    const std::string said = refusal(text);
    EXPECT_NE(said.find(words), std::string::npos) << text << "\n" << said;
  }
  static ModelText bytes() {
    ModelText text;
    text.bytes = true;
    return text;
  }
  static Ids ids(const std::string& text) {
    return bytes().encode(text, text::SpecialTokens::leave_out);
  }

  const std::string path_ = std::filesystem::temp_directory_path().string() +
                            "/choices-" + std::to_string(::getpid());
};

TEST_F(Choices, ASpaceStandsBetween) {
  const auto file = read(R"({"context": "ab", "choices": ["c", "dé"], "answer": 1})");
  ASSERT_EQ(file.texts.size(), 2u);
  EXPECT_EQ(file.texts[0].tokens, ids("ab c"));
  EXPECT_EQ(file.texts[0].first, 2);
  EXPECT_EQ(file.texts[1].tokens, ids("ab dé"));
  EXPECT_EQ(file.questions[0].answer, 1u);
  const auto joined = read(R"({"context": "ab", "choices": ["c"], "answer": 0})",
                           {.space = false, .positions = 9});
  EXPECT_EQ(joined.texts[0].tokens, ids("abc"));
}

// Of Unicode's, not of ASCII alone.
TEST_F(Choices, BlanksAtTheEndCountToTheChoice) {
  const auto file =
      read(R"({"context": "ab \t\u3000\u00a0\u001c", "choices": ["c"], "answer": "0"})");
  EXPECT_EQ(file.texts[0].tokens, ids("ab \t\u3000\u00a0\x1c c"));
  EXPECT_EQ(file.texts[0].first, 2);
}

TEST_F(Choices, BeforeAnEmptyContextStandsTheEndToken) {
  const auto file = read(R"({"context": "", "choices": ["c"], "answer": 0})");
  EXPECT_EQ(file.texts[0].tokens, (Ids{256, ' ', 'c'}));
  EXPECT_EQ(file.texts[0].first, 1);
}

// The last token is not read, so that one more than the positions fits.
TEST_F(Choices, WhatIsTooLongLosesItsBeginning) {
  const std::string line = R"({"context": "abcdef", "choices": ["g"], "answer": 0})";
  EXPECT_EQ(read(line, {.positions = 7}).cut, 0);
  const auto file = read(line, {.positions = 4});
  EXPECT_EQ(file.cut, 1);
  EXPECT_EQ(file.texts[0].tokens, ids("def g"));
  EXPECT_EQ(file.texts[0].first, 3);
  EXPECT_EQ(read(line, {.positions = 2}).texts[0].tokens, ids("f g"));
  EXPECT_NE(refusal(line, {.positions = 1}).find("2 tokens, and the model has 1"),
            std::string::npos);
}

TEST_F(Choices, FieldsHaveTheNamesOfDataSets) {
  const auto file = read(
      "\xef\xbb\xbf"
      R"({"ind": 7, "id": "x", "query": "a", "endings": ["b", "c"], "label": "1"})"
      "\n\n"
      R"({"question": "a", "choices": {"text": ["b", "c"], "label": ["3", "4"]}, )"
      R"("answerKey": "4"})"
      "\n"
      R"({"context": "a", "choices": ["b", "c", "d"], "gold": "C"})");
  ASSERT_EQ(file.questions.size(), 3u);
  EXPECT_EQ(file.questions[0].answer, 1u);
  EXPECT_EQ(file.questions[0].id, "x");
  EXPECT_EQ(file.questions[1].answer, 1u);
  EXPECT_EQ(file.questions[1].line, 3u);
  EXPECT_EQ(file.questions[2].answer, 2u);
  EXPECT_EQ(file.texts.size(), 7u);
}

TEST_F(Choices, WhatIsWrongIsNamedWithItsLine) {
  const std::string good = R"({"context": "a", "choices": ["b"], "answer": 0})";
  expect_refused(good + "\n{\"context\": ", path_ + ": line 2");
  expect_refused("[1]", "line 1: an object is expected");
  expect_refused(R"({"context": "a", "choices": ["b"], "answer": 0, "answer": 0})",
                 "twice");
  expect_refused(R"({"choices": ["b"], "answer": 0})",
                 "'context' or 'query' or 'question' is missing");
  expect_refused(R"({"context": "a", "answer": 0})", "'choices' or 'endings' is missing");
  expect_refused(R"({"context": "a", "choices": ["b"]})", "'answer' or 'label'");
  expect_refused(R"({"context": "a", "choices": [], "answer": 0})", "has 0 choices");
  expect_refused(R"({"context": "a", "choices": "b", "answer": 0})", "choices");
  expect_refused(R"({"context": "a", "choices": ["b", ""], "answer": 0})",
                 "an empty choice");
  expect_refused(R"({"context": 3, "choices": ["b"], "answer": 0})", "context");
  for (const char* const answer : {"2", "-1", "\"C\"", "\"a\"", "1.5", "null", "\"\""})
    expect_refused(std::string(R"({"context": "a", "choices": ["b", "c"], "answer": )") +
                       answer + "}",
                   "is none of the 2 choices: a number from 0 to 1");
  expect_refused(R"({"context": "a", "choices": {"text": ["b"], "label": ["A"]}, )"
                 R"("answerKey": "B"})",
                 "one of the labels is expected");
  expect_refused(R"({"context": "a", "choices": {"text": ["b"], "label": []}, )"
                 R"("answerKey": "B"})",
                 "has 1 choices, but 0 labels");
  expect_refused(R"({"context": " \t", "choices": ["b"], "answer": 0})",
                 "nothing but blanks");
  expect_refused("\n\n", "has no questions");
}

// Characters and bytes differ by the second choice's.
TEST(ChoiceVerdicts, EachMetricDividesByItsLength) {
  const std::vector<std::string> choices = {"abc", "éé", "abcdefgh"};
  EXPECT_EQ(taken_choices(std::vector<double>{-3.0, -3.2, -9.0}, choices),
            (Taken{0, 0, 1}));
  EXPECT_EQ(taken_choices(std::vector<double>{-5.0, -3.0, -9.0}, choices),
            (Taken{1, 2, 1}));
  EXPECT_EQ(taken_choices(std::vector<double>{-2.0, -2.0, -2.0}, choices)[0], 0u);
}

TEST(ChoiceVerdicts, SharesHaveTheirStandardError) {
  EXPECT_EQ(share_text(26, 50), "0.5200 +- 0.0714");
  EXPECT_EQ(share_text(0, 50), "0.0000 +- 0.0000");
  EXPECT_EQ(share_text(1, 1), "1.0000");
}

TEST(ChoiceVerdicts, ALineForEachQuestion) {
  ChoiceFile file;
  file.questions = {{.line = 2, .choices = {"a", "b"}, .answer = 1},
                    {.line = 5, .id = 7, .choices = {"c"}}};
  const std::vector<double> scores = {-1, -0.5, -2};
  const auto taken = take_all(file, scores);
  EXPECT_EQ(verdict_lines(file, scores, taken),
            "{\"line\":2,\"answer\":1,\"log_likelihoods\":[-1.0,-0.5],\"acc\":1,"
            "\"acc_norm\":1,\"acc_bytes\":1}\n"
            "{\"line\":5,\"id\":7,\"answer\":0,\"log_likelihoods\":[-2.0],\"acc\":1,"
            "\"acc_norm\":1,\"acc_bytes\":1}\n");
}

}  // namespace
}  // namespace trireme::app
