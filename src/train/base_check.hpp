// Whether a run goes on beside the model, of codes, that its adapters began with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "engine/frozen_base.hpp"
#include "io/checkpoint.hpp"

namespace trireme::train {

// The digest of the run's base (convert/base_digest.hpp), for its checkpoints; "" where
// it has none. from: the checkpoint that the run goes on from, or null; its digest must
// be the same. One that has none, as an older program wrote it, is met with a warning.
// Collective over the world: ranks share the reading. Throws an Agreed Error(bad_content)
// where the base or the kind of its codes is another, and as the readers do.
std::string identify_base(comm::World& world, const config::RunConfig& config,
                          const io::CheckpointReader* from);

// Throws Error(bad_content) where the checkpoint has a tensor that this run keeps as
// codes: it would be lost.
void check_no_numbers(const io::CheckpointReader& from,
                      const std::optional<engine::FrozenBase>& base);

// Throws Error(bad_content) where the checkpoint has an adapter, or DoRA's lengths, that
// this run has no place for, or multiplies by another factor: the model would be another
// one.
void check_no_lost_adapters(const io::CheckpointReader& from,
                            const nn::AdapterConfig& adapter);

}  // namespace trireme::train
