// Numbers the answers of a microbatch.
// SPDX-License-Identifier: Apache-2.0
#include "train/answer_rows.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace trireme::train {

void AnswerRows::begin(const nn::Answers& microbatch) {
  microbatch_ = microbatch;
  pairs_.clear();
  std::ranges::fill(microbatch_.numbers_T.span<std::int32_t>(), -1);
  std::ranges::fill(microbatch_.references_G2.span<double>(), 0.0);
}

void AnswerRows::add(const SampleRow& row, std::span<const std::int64_t> positions,
                     std::size_t at) {
  const std::vector<std::int64_t>& answers = row.answers();
  of_token_.assign(answers.size(), -1);
  std::int64_t last = -1;  // pair of this row: one may stand in two rows
  const auto places = microbatch_.references_G2.span<double>();
  for (std::size_t t = 1; t < answers.size(); ++t) {
    if (answers[t] < 0 || !row.is_target(t)) continue;
    if (answers[t] / 2 != last) pairs_.push_back(last = answers[t] / 2);
    const std::size_t number =
        2 * (pairs_.size() - 1) + static_cast<std::size_t>(answers[t] % 2);
    require(2 * number + 1 < places.size(), "{} answers in a microbatch for {}",
            number + 1, places.size() / 2);
    of_token_[t] = static_cast<std::int32_t>(number);
    if (references_ != nullptr)
      places[2 * number] = (*references_)[static_cast<std::size_t>(answers[t])];
    places[2 * number + 1] += 1;
  }
  const auto numbers = microbatch_.numbers_T.span<std::int32_t>();
  for (const std::int64_t position : positions)
    numbers[at++] = of_token_[static_cast<std::size_t>(position) + 1];
}

}  // namespace trireme::train
