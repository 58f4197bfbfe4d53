// The room of a rank, and decks with one more override.
// SPDX-License-Identifier: Apache-2.0
#include "app/memory_check.hpp"

#include "app/deck_arguments.hpp"
#include "launch/memory_limit.hpp"

namespace trireme::app {

plan::MemoryRoom room_here(const launch::ComputeDevice& on, int ranks_on_node) {
  if (on.device.is_cuda()) {
    if (on.gpu.emulated) return {};
    return {static_cast<double>(on.gpu.memory_bytes), "its GPU's memory"};
  }
  const launch::MemoryLimit limit = launch::node_memory_limit();
  return {static_cast<double>(limit.bytes) / ranks_on_node,
          format("{} of {}, for {} ranks", limit.from,
                 human_bytes(static_cast<double>(limit.bytes)), ranks_on_node)};
}

plan::MemoryRoom room_on(const plan::Machine& machine) {
  return {machine.memory_bytes, format("the machine file of '{}'", machine.name)};
}

void require_room(const std::vector<std::string>& words, int ranks, int ranks_on_node,
                  const config::RunConfig& config, std::span<const plan::Plan> plans,
                  const plan::PlannedDevice& on, const plan::MemoryRoom& room) {
  const auto change =
      [&](const std::string& override) -> std::optional<config::RunConfig> {
    std::vector<std::string> changed = words;
    changed.push_back(override);
    try {
      return load_deck(changed, ranks, ranks_on_node).config;
    } catch (const Error&) {
      return std::nullopt;  // it breaks a rule
    }
  };
  const std::string why = plan::why_no_room(config, plans, on, room, change);
  require(why.empty(), Status::resources, "{}", why);
}

}  // namespace trireme::app
