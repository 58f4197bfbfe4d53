// A training step on the meta device, as every plan runs it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/engine.hpp"

namespace trireme::plan {

// Runs one step of an engine that was built on meta for this configuration.
void run_meta_step(engine::Engine& engine, const config::RunConfig& config,
                   engine::StepObserver& observer);
void run_meta_step(engine::Engine& engine, const config::RunConfig& config);

}  // namespace trireme::plan
