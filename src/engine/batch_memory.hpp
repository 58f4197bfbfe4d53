// What the batches of a rank take in its host's memory, by the deck alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "config/run_config.hpp"

namespace trireme::engine {

// Steps whose batches lie in memory: one is trained on while the next are prepared.
inline constexpr std::int64_t batches_in_memory = 3;

// Bytes of batches, of validation's microbatch, of sample texts and of a profile on a
// rank that holds P positions of each sequence: MemoryClass::data of a run in its steady
// state. Data files come on top where they are not mapped: texts, conversations and
// pairs.
std::int64_t batch_bytes(const config::RunConfig& config, std::int64_t positions_P);

}  // namespace trireme::engine
