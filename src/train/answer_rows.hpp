// AnswerRows: the answers in the rows of a microbatch, numbered.
// SPDX-License-Identifier: Apache-2.0
// Legend: T tokens of a microbatch on this rank, G places for answers in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/preferences.hpp"
#include "train/sample_row.hpp"

namespace trireme::train {

// Ranks that hold parts of the same rows give the answers in them the same numbers. For
// one thread.
class AnswerRows {
 public:
  // references: log-probability of each answer of the source by the reference model;
  // null: not known yet, taken as 0. Outlives this.
  explicit AnswerRows(const std::vector<double>* references) : references_(references) {}

  // From here on, rows are added to this microbatch, which has none.
  void begin(const nn::Answers& microbatch);
  // Numbers of what positions [P] of the row, which stand in places [at, at + P), have as
  // targets; the row's pairs get the next numbers.
  void add(const SampleRow& row, std::span<const std::int64_t> positions, std::size_t at);

  std::int64_t pairs() const { return std::ssize(pairs_); }  // of the microbatch
  // The pair of the source behind pair p of the microbatch.
  std::int64_t pair(std::size_t p) const { return pairs_[p]; }

 private:
  const std::vector<double>* references_;
  nn::Answers microbatch_;
  std::vector<std::int64_t> pairs_;     // of the source
  std::vector<std::int32_t> of_token_;  // of the row that is added
};

}  // namespace trireme::train
