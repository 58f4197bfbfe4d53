// What a deck asks for that only CPUs have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/run_config.hpp"

namespace trireme::engine {

// Why a run of the deck cannot be on GPUs, with what to write instead; empty if it can.
// The deck's rules say so of run.device = "cuda" alone: with auto, and in a plan for a
// machine with GPUs, the device is known later.
std::string gpu_misfit(const config::RunConfig& config);

}  // namespace trireme::engine
