// How the weights of a model that is run lie in memory: --weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/arguments.hpp"
#include "comm/world.hpp"
#include "infer/loaded_model.hpp"

namespace trireme::app {

// --weights auto, codes or numbers; auto: codes, but numbers where weights are placed
// around a GPU. Throws Error(command_line) for another word, and for codes there.
infer::Held held_weights(const Arguments& arguments, Device device);

// Says on standard error how much is kept as codes, where anything is. Collective over
// the world.
void report_codes(comm::World& world, const infer::LoadedModel& model);

}  // namespace trireme::app
