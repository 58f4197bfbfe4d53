// The room of a rank, and decks with one more override.
// SPDX-License-Identifier: Apache-2.0
#include "app/memory_check.hpp"

#include "app/deck_arguments.hpp"
#include "base/counted.hpp"
#include "base/memory.hpp"
#include "launch/memory_limit.hpp"
#include "model/stage.hpp"

namespace trireme::app {

plan::MemoryRoom room_here(const launch::ComputeDevice& on, int ranks_on_node) {
  const launch::MemoryLimit limit = launch::node_memory_limit();
  const double share = static_cast<double>(limit.bytes) / ranks_on_node;
  const std::string from = format("{} of {}, for {}", limit.from,
                                  human_bytes(static_cast<double>(limit.bytes)),
                                  counted(ranks_on_node, "rank"));
  if (!on.device.is_cuda()) return {share, from, 0, ""};
  if (on.gpu.emulated) return {};
  return {static_cast<double>(on.gpu.memory_bytes), "its GPU's memory", share, from};
}

plan::MemoryRoom room_on(const plan::Machine& machine) {
  const std::string from = format("the machine file of '{}'", machine.name);
  return {machine.memory_bytes, from, machine.gpus ? machine.host_memory_bytes : 0, from};
}

namespace {

plan::Change change_of(const std::vector<std::string>& words, int ranks,
                       int ranks_on_node) {
  return [=](const std::string& override) -> std::optional<config::RunConfig> {
    std::vector<std::string> changed = words;
    changed.push_back(override);
    try {
      return load_deck(changed, ranks, ranks_on_node).config;
    } catch (const Error&) {
      return std::nullopt;  // it breaks a rule
    }
  };
}

}  // namespace

void require_room_for_weights(const config::RunConfig& config, int ranks,
                              const plan::MemoryRoom& room) {
  constexpr double far_too_large = 4;
  const bool are_elsewhere = config.parallel.offload == optim::Offload::disk_weights ||
                             config.adapter.quantize != model::BaseCodes::none;
  if (room.bytes <= 0 || are_elsewhere) return;
  const auto parameters = static_cast<double>(model::parameter_count(config.model));
  const auto element =
      static_cast<double>(size_of(config.precision.recipe[TensorClass::weight].type));
  const double bytes = parameters * element / ranks;
  require(bytes <= far_too_large * (room.bytes + room.host_bytes), Status::resources,
          "the model does not fit: the weights of {} parameters alone take {} on each of "
          "{}, and a rank has {} ({}): make the model smaller, or start more ranks",
          human_count(parameters), human_bytes(bytes), counted(ranks, "rank"),
          human_bytes(room.bytes), room.from);
}

void require_room(const std::vector<std::string>& words, int ranks, int ranks_on_node,
                  const config::RunConfig& config, std::span<const plan::Plan> plans,
                  const plan::PlannedDevice& on, const plan::MemoryRoom& room) {
  const std::string why =
      plan::why_no_room(config, plans, on, room, change_of(words, ranks, ranks_on_node));
  require(why.empty(), Status::resources, "{}", why);
}

std::string out_of_memory_text(const std::vector<std::string>& words, int ranks,
                               int ranks_on_node, const config::RunConfig& config,
                               const plan::PlannedDevice& on) {
  std::int64_t held = plan::program_bytes(on);
  for (int c = 0; c < memory_classes; ++c) {
    const auto memory_class = static_cast<MemoryClass>(c);
    if (on.device.is_cuda() && plan::is_in_node(memory_class)) continue;
    held += memory_use(memory_class).peak_bytes;
  }
  return plan::why_out_of_memory(config, plan::plan_stages(config, on), on,
                                 static_cast<double>(held),
                                 change_of(words, ranks, ranks_on_node));
}

}  // namespace trireme::app
