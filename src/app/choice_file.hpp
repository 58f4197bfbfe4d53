// ChoiceFile: the questions that `trireme evaluate --choices` asks a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/model_text.hpp"
#include "infer/text_scores.hpp"
#include "io/json_fields.hpp"

namespace trireme::app {

// A question, and the texts of its choices, one of which is right.
struct Question {
  std::size_t line = 0;  // of the file, from 1
  io::Json id{};         // as the line has it; null without one
  std::vector<std::string> choices{};
  std::size_t answer = 0;  // number of the right one, from 0
};

struct ChoiceFile {
  std::vector<Question> questions;
  std::vector<infer::ScoredText> texts;  // of each question's choices, in order
  std::int64_t cut = 0;                  // texts that lost their beginning
};

// How context and choice become tokens.
struct ChoiceRule {
  bool space = true;  // one between them
  text::SpecialTokens special = text::SpecialTokens::leave_out;
  std::int64_t positions = 0;  // most tokens that the model reads
};

// Reads JSON lines, an object each: "context" (or "query", "question"), "choices" (or
// "endings": a list of texts, or {"text": [...], "label": [...]}), and "answer" (or
// "label", "gold", "answerKey": a number from 0, or a letter from A, or one of those
// labels); of each the first name that the line has. "id" is kept, other fields are not
// looked at. Tokens are those of lm-evaluation-harness (Gao et al., 2021): context and
// choice are encoded together, behind as many tokens as the context alone has, whose
// blanks at the end count to the choice; what is too long loses its beginning. Throws
// Error(bad_content) naming file, line and what is wrong with it.
ChoiceFile read_choices(const std::string& path, const ChoiceRule& rule,
                        const ModelText& text);

}  // namespace trireme::app
