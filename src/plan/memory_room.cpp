// The refusal of a deck that does not fit, and the changes that would make it fit.
// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_room.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "base/text_table.hpp"
#include "engine/run_outlook.hpp"
#include "plan/prediction.hpp"

namespace trireme::plan {
namespace {

std::string text_of(double bytes) { return human_bytes(bytes); }

std::int64_t in_node(const Plan& plan) {
  return plan.memory[static_cast<std::size_t>(MemoryClass::data)] +
         plan.memory[static_cast<std::size_t>(MemoryClass::offloaded)];
}

using Bytes = double (*)(const Plan&, const PlannedDevice&);

// The stage that holds most.
std::size_t largest_stage(std::span<const Plan> plans, const PlannedDevice& on,
                          Bytes bytes) {
  std::size_t largest = 0;
  for (std::size_t s = 1; s < plans.size(); ++s)
    if (bytes(plans[s], on) > bytes(plans[largest], on)) largest = s;
  return largest;
}

// The table's rows are named amounts of each stage; those that are nothing everywhere are
// left out.
class StageTable {
 public:
  StageTable(std::span<const Plan> plans, std::string title, std::size_t largest)
      : plans_(plans) {
    rows_.push_back({std::move(title)});
    for (std::size_t s = 0; s < plans.size(); ++s)
      rows_[0].push_back(format("stage {}{}", s, s == largest ? " (most)" : ""));
  }

  template <class Amount>
  void add(std::string name, const Amount& amount) {
    TextRow row = {std::move(name)};
    double sum = 0;
    for (const Plan& plan : plans_) {
      const auto bytes = static_cast<double>(amount(plan));
      row.push_back(text_of(bytes));
      sum += bytes;
    }
    if (sum > 0) rows_.push_back(std::move(row));
  }

  // Of each pipeline stage, how many microbatches' activations its rank holds at once.
  void add_live_microbatches(const config::RunConfig& config) {
    TextRow row = {"microbatches held"};
    for (const engine::PipelineRank& rank : engine::pipeline_outlook(config))
      row.push_back(std::to_string(rank.live_microbatches));
    rows_.push_back(std::move(row));
  }

  std::string text() const { return text_table(rows_, 1, 2); }

 private:
  std::span<const Plan> plans_;
  std::vector<TextRow> rows_;
};

// What lies in the node's memory and has no class.
void add_beside_classes(StageTable& table) {
  table.add("copies of shards", [](const Plan& plan) { return plan.copies_bytes; });
  table.add("tokens and documents", [](const Plan& plan) { return plan.source_bytes; });
}

// What each phase uses of these classes, on the stage that holds most.
std::string phases_of(std::span<const Plan> plans, const PlannedDevice& on, Bytes bytes,
                      const std::vector<MemoryClass>& classes) {
  const std::size_t stage = largest_stage(plans, on, bytes);
  const Plan& plan = plans[stage];
  return format("what each phase of the run uses of it on stage {}, most in '{}':\n{}",
                stage, name_of(peak_phase(plan.used, classes)),
                phase_table(plan.memory, plan.used, classes, 2));
}

std::string device_table(const config::RunConfig& config, std::span<const Plan> plans,
                         const PlannedDevice& on) {
  StageTable table(plans, "memory of a rank", largest_stage(plans, on, device_bytes));
  std::vector<MemoryClass> here;
  for (const MemoryClass c : all_memory_classes) {
    if (on.device.is_cuda() && is_in_node(c)) continue;
    here.push_back(c);
    table.add(std::string(name_of(c)),
              [c](const Plan& plan) { return plan.memory[static_cast<std::size_t>(c)]; });
  }
  table.add("program", [](const Plan& plan) { return plan.program_bytes; });
  if (on.device.is_cuda())
    table.add("NCCL", [](const Plan& plan) {
      return plan.nccl ? plan.nccl->estimated_bytes() : 0;
    });
  else
    add_beside_classes(table);
  table.add("in all", [&](const Plan& plan) { return device_bytes(plan, on); });
  if (plans.size() > 1) table.add_live_microbatches(config);
  return table.text() + phases_of(plans, on, device_bytes, here);
}

std::string host_table(std::span<const Plan> plans, const PlannedDevice& on) {
  StageTable table(plans, "the node's memory", largest_stage(plans, on, host_bytes));
  for (const MemoryClass c : {MemoryClass::data, MemoryClass::offloaded})
    table.add(std::string(name_of(c)),
              [c](const Plan& plan) { return plan.memory[static_cast<std::size_t>(c)]; });
  add_beside_classes(table);
  table.add("in all", [&](const Plan& plan) { return host_bytes(plan, on); });
  return table.text() +
         phases_of(plans, on, host_bytes, {MemoryClass::data, MemoryClass::offloaded});
}

// A change that was planned.
struct Tried {
  std::string override;
  MemoryNeed need;
  double step_seconds = 0;
};

// What is too much of a need, in bytes.
double excess(const MemoryNeed& need, const MemoryRoom& room) {
  const auto beyond = [](double bytes, double limit) {
    return limit > 0 ? std::max(bytes - limit, 0.0) : 0.0;
  };
  return beyond(need.device, room.bytes) + beyond(need.host, room.host_bytes);
}

std::string time_of(const Tried& tried, double step_seconds) {
  const double longer = 100 * (tried.step_seconds / step_seconds - 1);
  return format("a step takes about {} % {}", fixed(std::abs(longer), 0),
                longer < 0 ? "less" : "more");
}

// Changes of one key, planned and timed.
class Changes {
 public:
  Changes(const config::RunConfig& config, std::span<const Plan> plans,
          const PlannedDevice& on, const MemoryRoom& room, std::string beyond,
          const Change& change)
      : on_(on),
        room_(room),
        beyond_(std::move(beyond)),
        need_(memory_need(plans, on)),
        source_bytes_(plans.front().source_bytes),
        nominal_(nominal_machine(on.device.is_cuda())) {
    for (const std::string& name : memory_changes(config)) {
      const std::optional<config::RunConfig> deck = change(name);
      if (!deck) continue;
      Tried tried = try_out(*deck, name);
      if (helps(tried)) all_.push_back(std::move(tried));
    }
    std::stable_sort(all_.begin(), all_.end(), [&](const Tried& a, const Tried& b) {
      const double a_excess = excess(a.need, room_), b_excess = excess(b.need, room_);
      if (a_excess > 0 || b_excess > 0) return a_excess < b_excess;
      return a.step_seconds < b.step_seconds;
    });
    if (!all_.empty()) seconds_ = try_out(config, "").step_seconds;
  }

  std::string text() const {
    if (all_.empty()) return "no change of one key takes less: give it more ranks";
    std::string text = "changes of one key, by what a step then takes:\n";
    for (std::size_t i = 0; i < std::min<std::size_t>(all_.size(), 2); ++i)
      text += line_of(all_[i]);
    if (!all_.front().need.fits(room_)) text += "give it more ranks, or change several\n";
    text.pop_back();
    return text;
  }

 private:
  // Takes less of what is too much; of a deck that fits, and failed, less where it
  // computes.
  bool helps(const Tried& tried) const {
    const double before = excess(need_, room_);
    return before > 0 ? excess(tried.need, room_) < before
                      : tried.need.device < need_.device;
  }

  Tried try_out(const config::RunConfig& deck, const std::string& name) const {
    PlannedDevice timed = on_;
    if (timed.machine == nullptr) timed.machine = &nominal_;
    std::vector<Plan> changed = plan_stages(deck, timed);
    for (Plan& plan : changed) plan.source_bytes = source_bytes_;
    return {name, memory_need(changed, on_),
            predict(deck, changed, *timed.machine).step_seconds};
  }

  std::string line_of(const Tried& tried) const {
    const bool of_host = room_.bytes <= 0 || need_.device <= room_.bytes;
    const auto of = [&](const MemoryNeed& need) {
      return of_host ? need.host : need.device;
    };
    return format("  {}: {} a rank, {} less{}; {}\n", tried.override,
                  text_of(of(tried.need)), text_of(of(need_) - of(tried.need)),
                  tried.need.fits(room_) ? ", which fits" : beyond_,
                  time_of(tried, seconds_));
  }

  const PlannedDevice& on_;
  const MemoryRoom& room_;
  std::string beyond_;  // said of a change that takes more than the room
  MemoryNeed need_;
  std::int64_t source_bytes_;  // which no change changes
  Machine nominal_;
  std::vector<Tried> all_;
  double seconds_ = 0;  // of a step of the deck as it is
};

}  // namespace

bool is_in_node(MemoryClass c) {
  return c == MemoryClass::data || c == MemoryClass::offloaded;
}

double device_bytes(const Plan& plan, const PlannedDevice& on) {
  auto bytes = static_cast<double>(plan.total_memory());
  if (on.device.is_cuda())
    bytes -= static_cast<double>(in_node(plan));
  else
    bytes += static_cast<double>(plan.copies_bytes + plan.source_bytes);
  bytes += static_cast<double>(plan.program_bytes);
  if (plan.nccl) bytes += static_cast<double>(plan.nccl->estimated_bytes());
  return bytes;
}

double host_bytes(const Plan& plan, const PlannedDevice& on) {
  if (!on.device.is_cuda()) return 0;
  return static_cast<double>(in_node(plan) + plan.copies_bytes + plan.source_bytes);
}

MemoryNeed memory_need(std::span<const Plan> plans, const PlannedDevice& on) {
  MemoryNeed need;
  for (const Plan& plan : plans) {
    need.device = std::max(need.device, device_bytes(plan, on));
    need.host = std::max(need.host, host_bytes(plan, on));
  }
  return need;
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
  changes.push_back(format("parallel.offload_activations={}",
                           config.parallel.offload_activations ? "false" : "true"));
  for (const char* place : {"optimizer", "weights", "none"})
    changes.push_back(format("parallel.offload={}", place));
  if (config.checkpoint.async) changes.emplace_back("checkpoint.async=false");
  if (config.checkpoint.partner > 0) changes.emplace_back("checkpoint.partner=0");
  return changes;
}

std::string why_no_room(const config::RunConfig& config, std::span<const Plan> plans,
                        const PlannedDevice& on, const MemoryRoom& room,
                        const Change& change) {
  const MemoryNeed need = memory_need(plans, on);
  if (need.fits(room)) return {};
  std::string text = "the deck does not fit: ";
  if (room.bytes > 0 && need.device > room.bytes)
    text += format(
        "a rank needs {}, and has {} ({}); {} too much. All of it is held from before "
        "the first step to the end:\n{}",
        text_of(need.device), text_of(room.bytes), room.from,
        text_of(need.device - room.bytes), device_table(config, plans, on));
  if (room.host_bytes > 0 && need.host > room.host_bytes)
    text += format(
        "a rank needs {} of its node's memory, and has {} ({}); {} too much. All of it "
        "is held from before the first step to the end:\n{}",
        text_of(need.host), text_of(room.host_bytes), room.host_from,
        text_of(need.host - room.host_bytes), host_table(plans, on));
  return text + Changes(config, plans, on, room, ", which is not enough", change).text();
}

std::string why_out_of_memory(const config::RunConfig& config,
                              std::span<const Plan> plans, const PlannedDevice& on,
                              double held, const Change& change) {
  const MemoryNeed need = memory_need(plans, on);
  return format("a rank is planned to need {}, and had {} of it before this failed:\n{}",
                text_of(need.device), text_of(held), device_table(config, plans, on)) +
         Changes(config, plans, on, {held, "what it had"}, "", change).text();
}

}  // namespace trireme::plan
