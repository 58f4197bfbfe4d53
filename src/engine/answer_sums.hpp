// Numbers of all answers, of each of which one rank knows: they come together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/mesh.hpp"

namespace trireme::engine {

// Sums over all ranks, in messages of one length however many values there are.
// Collective over the mesh.
void sum_answers(comm::Mesh& mesh, std::span<double> values);
// One such message on a mesh without memory.
void plan_answer_sums(comm::Mesh& mesh);

}  // namespace trireme::engine
