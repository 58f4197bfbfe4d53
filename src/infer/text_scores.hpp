// Scores of texts: the log-probability of what stands at the end of each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/group.hpp"
#include "infer/loaded_model.hpp"

namespace trireme::infer {

// Tokens, of which those from `first` on are scored: 1 or more, each by all before it.
struct ScoredText {
  std::vector<std::int32_t> tokens;
  std::int64_t first = 1;  // 1 or more
};

// The natural logarithm of the probability of each text's scored tokens. Texts of the
// same length run together, so that none is padded, and no expert has a capacity: a
// score depends on its own text alone, but for the last bits. A stage works on some while
// the one behind it has others. `watch` sees how many texts this rank is through with.
// All ranks of the model, its stages in `pipeline`, call alike and get the same result.
std::vector<double> score_texts(const LoadedModel& model, comm::Group& pipeline,
                                const std::vector<ScoredText>& texts,
                                const std::function<void(std::size_t)>& watch = {});

// Memory that score_texts() takes beside the weights.
std::int64_t scoring_bytes(const LoadedModel& model, comm::Group& pipeline,
                           const std::vector<ScoredText>& texts);

}  // namespace trireme::infer
