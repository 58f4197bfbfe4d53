// The choices that a model takes, as lm-evaluation-harness counts them.
// SPDX-License-Identifier: Apache-2.0
#include "app/choice_verdicts.hpp"

#include <algorithm>
#include <cmath>

#include "base/format.hpp"

namespace trireme::app {
namespace {

// Of text that is valid UTF-8.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (c & '\xC0') != '\x80'; }));
}

std::size_t highest(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) -
                                  values.begin());
}

// f(question, the scores of its choices), in order.
template <class F>
void for_each_question(const ChoiceFile& file, const std::vector<double>& scores,
                       const F& f) {
  std::size_t first = 0;
  for (const Question& question : file.questions) {
    f(question, std::span(scores).subspan(first, question.choices.size()));
    first += question.choices.size();
  }
}

}  // namespace

Taken taken_choices(std::span<const double> log_likelihoods,
                    const std::vector<std::string>& choices) {
  std::vector<double> plain(log_likelihoods.begin(), log_likelihoods.end());
  std::vector<double> by_characters = plain, by_bytes = plain;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    by_characters[i] /= static_cast<double>(characters(choices[i]));
    by_bytes[i] /= static_cast<double>(choices[i].size());
  }
  return {highest(plain), highest(by_characters), highest(by_bytes)};
}

std::string share_text(std::size_t right, std::size_t questions) {
  const double n = static_cast<double>(questions), p = static_cast<double>(right) / n;
  if (questions < 2) return fixed(p, 4);
  return format("{} +- {}", fixed(p, 4), fixed(std::sqrt(p * (1 - p) / (n - 1)), 4));
}

std::vector<Taken> take_all(const ChoiceFile& file, const std::vector<double>& scores) {
  std::vector<Taken> all;
  for_each_question(file, scores, [&](const Question& question, const auto& own) {
    all.push_back(taken_choices(own, question.choices));
  });
  return all;
}

std::string verdict_lines(const ChoiceFile& file, const std::vector<double>& scores,
                          const std::vector<Taken>& taken) {
  std::string lines;
  std::size_t number = 0;
  for_each_question(file, scores, [&](const Question& question, const auto& own) {
    io::Json line = {{"line", question.line}};
    if (!question.id.is_null()) line["id"] = question.id;
    line["answer"] = question.answer;
    line["log_likelihoods"] = std::vector<double>(own.begin(), own.end());
    const Taken& mine = taken[number++];
    for (std::size_t i = 0; i < mine.size(); ++i)
      line[std::string(choice_metrics[i])] = mine[i] == question.answer ? 1 : 0;
    lines += line.dump(-1, ' ', false, io::Json::error_handler_t::replace) + "\n";
  });
  return lines;
}

}  // namespace trireme::app
