// Reads questions line by line; every error names the line.
// SPDX-License-Identifier: Apache-2.0
#include "app/choice_file.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/number.hpp"
#include "io/json_fields.hpp"
#include "io/json_lines.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::app {
namespace {

constexpr std::size_t most_choices = 1000;

constexpr std::array context_names = {"context", "query", "question"};
constexpr std::array choices_names = {"choices", "endings"};
constexpr std::array answer_names = {"answer", "label", "gold", "answerKey"};

// The first of these fields that a line has.
io::JsonField field_of(const io::JsonField& line, std::span<const char* const> names,
                       const std::string& source) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const char* name) { return line.has(name); });
  std::string all;
  for (const char* name : names) all += format("{}'{}'", all.empty() ? "" : " or ", name);
  require(found != names.end(), Status::bad_content, "{}: {} is missing", source, all);
  return line.at(*found);
}

std::vector<std::string> texts_of(const io::JsonField& list) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < list.size(); ++i) all.push_back(list.at(i).text());
  return all;
}

// What the line gives for its answer, as text.
std::string answer_text(const io::Json& json) {
  for (const char* const name : answer_names)
    if (json.contains(name))
      return json[name].is_string() ? json[name].get<std::string>() : json[name].dump();
  return "";
}

// The number of the right choice, by labels where the line has them; else it is one
// itself, or a letter.
std::optional<std::size_t> answer_of(const std::string& answer,
                                     const std::vector<std::string>& labels) {
  if (!labels.empty()) {
    const auto found = std::find(labels.begin(), labels.end(), answer);
    if (found == labels.end()) return {};
    return static_cast<std::size_t>(found - labels.begin());
  }
  if (answer.size() == 1 && answer[0] >= 'A' && answer[0] <= 'Z')
    return static_cast<std::size_t>(answer[0] - 'A');
  return parse_number<std::uint64_t>(answer);
}

Question question_of(const io::Json& json, const std::string& source) {
  Question question;
  const io::JsonField line(json, source);
  const io::JsonField choices = field_of(line, choices_names, source);
  std::vector<std::string> labels;
  const bool labelled = choices.has("text");
  if (labelled) labels = texts_of(choices.at("label"));
  question.choices = texts_of(labelled ? choices.at("text") : choices);
  require(!question.choices.empty() && question.choices.size() <= most_choices,
          Status::bad_content, "{}: has {} choices; 1 to {} are expected", source,
          question.choices.size(), most_choices);
  for (const std::string& choice : question.choices)
    require(!choice.empty(), Status::bad_content, "{}: has an empty choice", source);
  require(!labelled || labels.size() == question.choices.size(), Status::bad_content,
          "{}: has {} choices, but {} labels of them", source, question.choices.size(),
          labels.size());
  field_of(line, answer_names, source);
  const std::string text = answer_text(json);
  const auto answer = answer_of(text, labels);
  const std::string known =
      labelled ? std::string("one of the labels")
               : format("a number from 0 to {}, or such a letter from A on",
                        question.choices.size() - 1);
  require(answer && *answer < question.choices.size(), Status::bad_content,
          "{}: the answer '{}' is none of the {} choices: {} is expected", source,
          text.substr(0, 60), question.choices.size(), known);
  question.answer = *answer;
  if (json.contains("id")) question.id = json["id"];
  return question;
}

// Where the blanks at the end of a text begin: those of Python's str.rstrip().
std::size_t end_without_blanks(const std::string& text) {
  std::size_t end = text.size();
  while (end > 0) {
    const text::CodePoint last = text::code_point_before(text, end);
    const bool separator = last.value >= 0x1C && last.value <= 0x1F;
    if (!separator && !text::is_space(last.value)) break;
    end -= last.bytes;
  }
  return end;
}

// Stands before a text that has nothing before it: the token that the tokenizer puts
// there, else the one that ends texts.
std::optional<std::int32_t> beginning_token(const ModelText& text) {
  if (text.tokenizer) {
    const auto added = text.encode("", text::SpecialTokens::add);
    if (!added.empty()) return added.front();
  }
  return text.end_token();
}

// Context and choice as tokens, and which is the first of the choice.
infer::ScoredText scored_text(const std::string& context, const std::string& choice,
                              const ChoiceRule& rule, const ModelText& text,
                              const std::string& source) {
  infer::ScoredText scored;
  const std::string continuation = (rule.space ? " " : "") + choice;
  if (context.empty()) {
    const auto first = beginning_token(text);
    require(first.has_value(), Status::bad_content,
            "{}: the context is empty, and the tokenizer has no token for the beginning "
            "or the end of a text",
            source);
    scored.tokens = text.encode(continuation, text::SpecialTokens::leave_out);
    scored.tokens.insert(scored.tokens.begin(), *first);
    return scored;
  }
  const std::string before = context.substr(0, end_without_blanks(context));
  scored.tokens = text.encode(context + continuation, rule.special);
  scored.first = static_cast<std::int64_t>(text.encode(before, rule.special).size());
  require(scored.first > 0, Status::bad_content,
          "{}: the context has nothing but blanks: leave it empty, or give it a text",
          source);
  return scored;
}

// Adds the texts of a question.
void add_texts(ChoiceFile& all, const std::string& context, const Question& question,
               const ChoiceRule& rule, const ModelText& text, const std::string& source) {
  for (std::size_t i = 0; i < question.choices.size(); ++i) {
    infer::ScoredText scored =
        scored_text(context, question.choices[i], rule, text, source);
    const auto tokens = static_cast<std::int64_t>(scored.tokens.size());
    require(tokens > scored.first, Status::bad_content,
            "{}: choice {} has no token of its own behind the context", source, i);
    require(tokens - scored.first <= rule.positions, Status::bad_content,
            "{}: choice {} has {} tokens, and the model has {} positions", source, i,
            tokens - scored.first, rule.positions);
    // The last token is not read: nothing comes behind it.
    const std::int64_t over = tokens - 1 - rule.positions;
    if (over > 0) {
      scored.tokens.erase(scored.tokens.begin(), scored.tokens.begin() + over);
      scored.first -= over;
      ++all.cut;
    }
    all.texts.push_back(std::move(scored));
  }
}

}  // namespace

ChoiceFile read_choices(const std::string& path, const ChoiceRule& rule,
                        const ModelText& text) {
  ChoiceFile all;
  io::JsonLines lines(path);
  while (const auto line = lines.next()) {
    const std::string& source = line->source;
    Question question = question_of(line->object, source);
    question.line = line->number;
    const std::string context =
        field_of(io::JsonField(line->object, source), context_names, source).text();
    add_texts(all, context, question, rule, text, source);
    all.questions.push_back(std::move(question));
  }
  require(!all.questions.empty(), Status::bad_content, "{}: has no questions", path);
  return all;
}

}  // namespace trireme::app
