// The refusal of a deck that does not fit, and the changes that would make it fit.
// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_room.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/text_table.hpp"
#include "plan/prediction.hpp"

namespace trireme::plan {
namespace {

std::string text_of(double bytes) { return human_bytes(bytes); }

// The stage that holds most.
std::size_t largest_stage(std::span<const Plan> plans, const PlannedDevice& on) {
  std::size_t largest = 0;
  for (std::size_t s = 1; s < plans.size(); ++s)
    if (device_bytes(plans[s], on) > device_bytes(plans[largest], on)) largest = s;
  return largest;
}

std::string table_by_class(std::span<const Plan> plans, const PlannedDevice& on,
                           std::size_t largest) {
  std::vector<TextRow> rows = {{"memory of a rank"}};
  for (std::size_t s = 0; s < plans.size(); ++s)
    rows[0].push_back(format("stage {}{}", s, s == largest ? " (most)" : ""));
  for (int c = 0; c < memory_classes; ++c) {
    const auto memory_class = static_cast<MemoryClass>(c);
    if (on.device.is_cuda() && memory_class == MemoryClass::offloaded) continue;
    TextRow row = {std::string(name_of(memory_class))};
    double sum = 0;
    for (const Plan& plan : plans) {
      const auto bytes = static_cast<double>(plan.memory[static_cast<std::size_t>(c)]);
      row.push_back(text_of(bytes));
      sum += bytes;
    }
    if (sum > 0) rows.push_back(row);
  }
  TextRow program = {"program"};
  for (const Plan& plan : plans)
    program.push_back(text_of(static_cast<double>(plan.program_bytes)));
  if (plans[largest].program_bytes > 0) rows.push_back(program);
  TextRow copies = {"copies of shards"};
  for (const Plan& plan : plans)
    copies.push_back(text_of(static_cast<double>(plan.copies_bytes)));
  if (!on.device.is_cuda() && plans[largest].copies_bytes > 0) rows.push_back(copies);
  TextRow total = {"in all"};
  for (const Plan& plan : plans) total.push_back(text_of(device_bytes(plan, on)));
  rows.push_back(total);
  return text_table(rows, 1, 2);
}

// A change that was planned.
struct Tried {
  std::string override;
  double bytes = 0;
  double step_seconds = 0;
};

std::string time_of(const Tried& tried, double step_seconds) {
  const double longer = 100 * (tried.step_seconds / step_seconds - 1);
  return format("a step takes about {} % {}", fixed(std::abs(longer), 0),
                longer < 0 ? "less" : "more");
}

std::string line_of(const Tried& tried, double bytes, double step_seconds, double room) {
  return format("  {}: {} a rank, {} less{}; {}\n", tried.override, text_of(tried.bytes),
                text_of(bytes - tried.bytes),
                tried.bytes <= room ? ", which fits" : ", which is not enough",
                time_of(tried, step_seconds));
}

}  // namespace

double device_bytes(const Plan& plan, const PlannedDevice& on) {
  auto bytes = static_cast<double>(plan.total_memory());
  if (on.device.is_cuda())
    bytes -= static_cast<double>(
        plan.memory[static_cast<std::size_t>(MemoryClass::offloaded)]);
  else
    bytes += static_cast<double>(plan.copies_bytes);
  bytes += static_cast<double>(plan.program_bytes);
  if (plan.nccl) bytes += static_cast<double>(plan.nccl->estimated_bytes());
  return bytes;
}

std::vector<std::string> memory_changes(const config::RunConfig& config) {
  const auto& mesh = config.parallel.mesh;
  std::vector<std::string> changes = {"recompute.policy=selective",
                                      "recompute.policy=full"};
  if (config.batch.micro > 1)
    changes.push_back(format("batch.micro={}", config.batch.micro / 2));
  if (mesh.data * mesh.context > 1)
    for (const char* name : {"ZERO1", "SHARD_GRAD_OP", "FULL_SHARD"})
      changes.push_back(format("parallel.sharding_strategy={}", name));
  if (mesh.data > 1) {
    changes.push_back(format("parallel.tensor={}", mesh.tensor * 2));
    changes.push_back(format("parallel.pipeline={}", mesh.pipeline * 2));
  }
  if (!config.parallel.offload_activations)
    changes.emplace_back("parallel.offload_activations=true");
  changes.emplace_back("parallel.offload=optimizer");
  changes.emplace_back("parallel.offload=weights");
  return changes;
}

std::string why_no_room(const config::RunConfig& config, std::span<const Plan> plans,
                        const PlannedDevice& on, const MemoryRoom& room,
                        const Change& change) {
  const std::size_t largest = largest_stage(plans, on);
  const double bytes = device_bytes(plans[largest], on);
  if (room.bytes <= 0 || bytes <= room.bytes) return {};
  const Machine nominal = nominal_machine(on.device.is_cuda());
  PlannedDevice timed = on;
  if (timed.machine == nullptr) timed.machine = &nominal;
  const auto try_out = [&](const config::RunConfig& deck, const std::string& name) {
    const std::vector<Plan> changed = plan_stages(deck, timed);
    return Tried{name, device_bytes(changed[largest_stage(changed, on)], on),
                 predict(deck, changed, *timed.machine).step_seconds};
  };
  std::vector<Tried> all;
  for (const std::string& name : memory_changes(config)) {
    const std::optional<config::RunConfig> deck = change(name);
    if (!deck) continue;
    Tried tried = try_out(*deck, name);
    if (tried.bytes < bytes) all.push_back(std::move(tried));
  }
  std::stable_sort(all.begin(), all.end(), [&](const Tried& a, const Tried& b) {
    const bool a_fits = a.bytes <= room.bytes, b_fits = b.bytes <= room.bytes;
    if (a_fits != b_fits) return a_fits;
    if (!a_fits) return a.bytes < b.bytes;
    return a.step_seconds < b.step_seconds;
  });
  std::string text = format(
      "the deck does not fit: a rank needs {}, and has {} ({}); {} too much. All of it "
      "is held from before the first step to the end:\n{}",
      text_of(bytes), text_of(room.bytes), room.from, text_of(bytes - room.bytes),
      table_by_class(plans, on, largest));
  if (all.empty()) return text + "no change of one key takes less: give it more ranks";
  const double seconds = try_out(config, "").step_seconds;
  text += "changes of one key, by what a step then takes:\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 2); ++i)
    text += line_of(all[i], bytes, seconds, room.bytes);
  if (all.front().bytes > room.bytes) text += "give it more ranks, or change several\n";
  text.pop_back();
  return text;
}

}  // namespace trireme::plan
