// What a rank holds in memory, and which of it each phase of a run uses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/memory.hpp"
#include "config/run_config.hpp"

namespace trireme::comm {
class Mesh;
}
namespace trireme::engine {
class Engine;
}

namespace trireme::plan {

// What a run does at a time, as far as memory goes.
enum class MemoryPhase : std::uint8_t {
  start,       // initial weights, or those of a checkpoint
  compute,     // forward and backward of all microbatches, with reductions
  update,      // norm, clipping, optimizer
  validation,  // and texts that are written as samples
  checkpoint   // while it is made; a copy of it may be written beside later steps
};
inline constexpr int memory_phases = 5;
std::string_view name_of(MemoryPhase phase);

inline constexpr std::array all_memory_classes = {
    MemoryClass::weights,     MemoryClass::gradients,     MemoryClass::optimizer,
    MemoryClass::activations, MemoryClass::communication, MemoryClass::workspace,
    MemoryClass::data,        MemoryClass::offloaded};
static_assert(all_memory_classes.size() == memory_classes);

using ClassBytes = std::array<std::int64_t, memory_classes>;
using PhaseBytes = std::array<ClassBytes, memory_phases>;

// Everything is held from before the first step to the end. A phase uses what it reads or
// writes, and what has to outlive it; the rest lies idle meanwhile. Memory that messages
// or kernels pass through counts in whole where any of it is used.
struct HeldMemory {
  ClassBytes held{};
  PhaseBytes used{};              // nothing in validation, where the deck asks for none
  std::int64_t kernel_bytes = 0;  // of the workspace: what kernels of a GPU hold
  std::int64_t copies_bytes = 0;  // of shards, in the node's memory (checkpoint.partner)
};

// Of an engine that has taken a step, on any device: alike on all.
HeldMemory held_memory(engine::Engine& engine, comm::Mesh& mesh,
                       const config::RunConfig& config);

// The phase that uses most of these classes; of several the first.
MemoryPhase peak_phase(const PhaseBytes& used, std::span<const MemoryClass> classes);

// A row for each of these classes that holds anything, their sum below: what is held, and
// what each phase uses, the peak marked. `indent`: as text_table().
std::string phase_table(const ClassBytes& held, const PhaseBytes& used,
                        std::span<const MemoryClass> classes, std::size_t indent);

}  // namespace trireme::plan
