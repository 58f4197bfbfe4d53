// How a model's blocks are cut into pipeline stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/split.hpp"
#include "model/model_config.hpp"

namespace trireme::schedule {

// The blocks of each stage, in order. Counts are `given` if that is not empty (its sum is
// the number of layers). Otherwise blocks go one by one to the stage that has least work,
// each stage having at least one: work is counted in FLOPs, the head's with the last
// stage. With one block too few the last stage has the head alone, with two too few the
// first has the embedding alone as well.
std::vector<Range> cut_stages(const model::ModelConfig& model, int stages,
                              std::span<const std::int64_t> given);

// The most stages that so many layers can fill.
std::int64_t most_stages(std::int64_t layers);
// Whether each stage has something to do: a block, the embedding or the head.
bool fills_stages(std::span<const std::int64_t> counts);

}  // namespace trireme::schedule
