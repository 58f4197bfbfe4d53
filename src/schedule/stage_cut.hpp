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
// stage. Needs layers >= stages.
std::vector<Range> cut_stages(const model::ModelConfig& model, int stages,
                              std::span<const std::int64_t> given);

}  // namespace trireme::schedule
