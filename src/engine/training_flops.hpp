// What a run trains, and the FLOPs that training takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/param.hpp"
#include "config/run_config.hpp"
#include "model/stage.hpp"

namespace trireme::engine {

// Marks the Param as the deck's groups and adapters say: rates, decays, and whether it is
// frozen. Throws as optim::apply_groups() and model::freeze_base() do.
void mark_training(const config::RunConfig& config, Param& param);

// FLOPs on one token, with the deck's adapters and without gradients of what is frozen.
model::FlopsPerToken training_flops(const config::RunConfig& config);

}  // namespace trireme::engine
