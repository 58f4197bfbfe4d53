// A sample as the row of a microbatch.
// SPDX-License-Identifier: Apache-2.0
#include "train/sample_row.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace trireme::train {

SampleRow::SampleRow(const io::SampleSource& source, std::int64_t sequence,
                     const std::optional<engine::DocumentRule>& documents)
    : source_(source),
      documents_(documents),
      memory_(Device::host(), DType::i32, {sequence + 1}, MemoryClass::data, "sample") {}

void SampleRow::read(std::int64_t index, std::int64_t cut) {
  const auto tokens = memory_.view().span<std::int32_t>();
  source_.sample(index, tokens);
  marks_ = source_.marks(index);
  for (const std::size_t marks :
       {marks_.starts.size(), marks_.no_target.size(), marks_.answers.size()})
    require(marks == 0 || marks == tokens.size(), "{} marks of {} tokens", marks,
            tokens.size());
  starts_.clear();
  if (!marks_.starts.empty())
    starts_ = marks_.starts;
  else if (documents_ && documents_->end_token)
    starts_ = engine::document_starts(tokens, *documents_->end_token);
  if (!documents_) return;
  seen_ = starts_;
  seen_.resize(tokens.size());
  if (cut == 0) return;
  for (std::size_t t = 0; t < seen_.size(); ++t)
    seen_[t] = std::max(seen_[t], static_cast<std::int64_t>(t) / cut * cut);
}

bool SampleRow::is_target(std::size_t token) const {
  return token > 0 && tokens()[token] >= 0 &&
         (starts_.empty() || starts_[token] == starts_[token - 1]) &&
         (marks_.no_target.empty() || marks_.no_target[token] == 0);
}

std::int64_t SampleRow::put(std::span<const std::int64_t> positions, std::size_t at,
                            std::span<std::int32_t> inputs_T,
                            std::span<std::int32_t> targets_T,
                            const nn::Documents* documents) const {
  std::int64_t targets = 0;
  for (const std::int64_t position : positions) {
    const auto p = static_cast<std::size_t>(position);
    const bool has_target = is_target(p + 1);
    // A missing token is negative, which no embedding has.
    inputs_T[at] = std::max(tokens()[p], 0);
    targets_T[at] = has_target ? tokens()[p + 1] : io::ignore_index;
    if (documents_)
      engine::put_document(*documents, at, position, seen_, documents_->window);
    targets += has_target;
    ++at;
  }
  return targets;
}

}  // namespace trireme::train
