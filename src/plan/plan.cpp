// Plan: memory, traffic and schedule of a run, from its engine on the meta device.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

#include <numeric>

#include "base/counted.hpp"
#include "base/text_table.hpp"
#include "comm/meta_group.hpp"
#include "engine/answer_sums.hpp"
#include "engine/checkpoint_boxes.hpp"
#include "engine/engine.hpp"
#include "engine/group_use.hpp"
#include "engine/planned_device.hpp"
#include "engine/sample_route.hpp"
#include "engine/training_flops.hpp"
#include "io/checkpoint_snapshot.hpp"
#include "io/shared_source.hpp"
#include "kernels/runtime/profile.hpp"
#include "plan/meta_step.hpp"
#include "plan/step_clock.hpp"

namespace trireme::plan {

std::int64_t Plan::total_memory() const {
  return std::accumulate(memory.begin(), memory.end(), std::int64_t{0});
}

namespace {

// What is resident beside memory by class: 30 to 32 MiB on one to four ranks of one node
// with Open MPI 4.1.4, and about 10 that products pack their operands into (20 in fp32).
constexpr std::int64_t program_on_hosts = std::int64_t{40} << 20;
// The driver's context with the kernels of program and libraries, and cuDNN's plans.
// Others have seen 534 MiB for a context on an H100. An estimate: it has not been
// measured.
constexpr std::int64_t program_on_gpus = std::int64_t{600} << 20;

void fill_memory(Plan& plan, engine::Engine& engine, comm::Mesh& mesh,
                 const config::RunConfig& config) {
  const HeldMemory memory = held_memory(engine, mesh, config);
  plan.memory = memory.held;
  plan.used = memory.used;
  plan.kernel_bytes = memory.kernel_bytes;
  plan.copies_bytes = memory.copies_bytes;
  const optim::StateMemory& state = engine.store().memory();
  plan.disk_bytes = static_cast<std::int64_t>(state.file_bytes());
  plan.disk_weight_bytes = static_cast<std::int64_t>(state.weight_bytes());
}

// Samples come to the ranks that did not read them, then a step.
void run_planned_step(engine::Engine& engine, const config::RunConfig& config,
                      comm::Mesh& mesh) {
  const engine::SampleRoute route(mesh, config, config.data);
  const std::int64_t views = 2 + (config.has_documents() ? 3 : 0);
  const TensorView samples(nullptr, DType::i32,
                           {views * config.microbatches() * config.batch.micro *
                            static_cast<std::int64_t>(engine.positions().size())},
                           engine::host_beside(mesh, Device::meta()));
  route.distribute(samples, [] { return 0; });
  run_meta_step(engine, config);
}

// A step, by the clock of the machine.
Timing time_step(engine::Engine& engine, const config::RunConfig& config,
                 comm::Mesh& mesh, const Machine& machine) {
  StepClock clock(machine, mesh.shape(), mesh.folding(), mesh.rank());
  {
    const WorkMeterInUse in_use(clock);
    run_planned_step(engine, config, mesh);
  }
  const StepClock::Spent& spent = clock.spent();
  Timing timing;
  timing.action_seconds = engine.executor().times().action_seconds();
  timing.step_seconds = clock.seconds();
  timing.products = spent.products;
  timing.attention = spent.attention;
  timing.sweeps = spent.sweeps;
  timing.waiting = spent.waiting;
  timing.host = spent.host;
  timing.stage_message_seconds = clock.stage_message_seconds(spent.stage_bytes);
  timing.checkpoint_bytes = static_cast<double>(
      io::CheckpointSnapshot::bytes_for(engine::checkpoint_boxes(engine, mesh)));
  return timing;
}

// The end of a round of copies that take steps by themselves; `engine` has taken a step.
// With rounds of one step that is part of each.
void plan_round(Plan& plan, engine::Engine& engine, comm::Mesh& mesh,
                const config::RunConfig& config, const Machine* machine) {
  if (config.optimizer.outer.every <= 1) return;
  engine::StepObserver nobody;
  comm::TrafficMeter meter(mesh);
  if (machine == nullptr) {
    engine.average_copies(nobody);
  } else {
    StepClock clock(*machine, mesh.shape(), mesh.folding(), mesh.rank());
    const WorkMeterInUse in_use(clock);
    engine.average_copies(nobody);
    plan.timing.round_seconds = clock.seconds();
  }
  meter.end();
  plan.round_traffic = engine::last_lap(meter);
}

// What else the ranks bring together: their parts of a validation, and of all answers.
void plan_totals(engine::Engine& engine, comm::Mesh& mesh,
                 const config::RunConfig& config) {
  if (config.learns_pairs()) {
    engine::plan_answer_sums(mesh);
  } else if (config.metrics.validate_every > 0) {
    double loss = 0, tokens = 0;
    engine.totals().sum_validation(loss, tokens);
  }
}

}  // namespace

config::RunConfig known_on(const PlannedDevice& on, const config::RunConfig& config) {
  config::RunConfig known = config;
  known.run.gpu_bytes = on.gpu_bytes;
  return known;
}

namespace {

bool by_nccl(const PlannedDevice& on) {
  return on.device.is_cuda() && on.transport == comm::Transport::nccl;
}

// A run by NCCL has communicators for what it is said to use, and no others.
comm::Mesh planned_mesh(const config::RunConfig& config, int rank,
                        const PlannedDevice& on) {
  comm::Mesh mesh = comm::Mesh::meta(config.parallel.mesh, rank, config.parallel.folding,
                                     on.device, on.transport);
  if (!by_nccl(on)) return mesh;
  const comm::GroupUse use = engine::group_use(config);
  for (comm::Group* group : mesh.groups())
    if (!use.needs_communicator(group->name())) comm::forbid_collectives(*group);
  return mesh;
}

}  // namespace

Plan make_plan(const config::RunConfig& deck, int rank, const PlannedDevice& on) {
  const kernels::ProfilePause pause;
  const config::RunConfig config = known_on(on, deck);
  comm::Mesh mesh = planned_mesh(config, rank, on);
  engine::Engine engine(config, mesh, Device::meta());
  comm::TrafficMeter meter(mesh);
  Plan plan;
  plan.rank = rank;
  if (on.machine == nullptr)
    run_planned_step(engine, config, mesh);
  else
    plan.timing = time_step(engine, config, mesh, *on.machine);
  meter.end();
  plan.traffic = engine::last_lap(meter);
  plan_round(plan, engine, mesh, config, on.machine);

  plan_totals(engine, mesh, config);
  fill_memory(plan, engine, mesh, config);
  plan.program_bytes = program_bytes(on);
  for (const optim::FlatParameter& flat : engine.store().flats()) {
    PlannedUnit& row = plan.units.emplace_back();
    row.name =
        flat.name + (flat.expert ? " experts" : "") + (flat.frozen ? " (frozen)" : "");
    for (const optim::ParameterView& view : flat.views) row.parameters += view.elements;
    row.share = flat.shard_elements();
  }
  plan.local_parameters = engine.store().local_elements();
  if (engine.base()) {
    plan.local_parameters += engine.base()->elements();
    plan.codes = {engine.base()->code_bytes(), engine.base()->number_bytes(),
                  engine.base()->working_bytes()};
  }
  if (by_nccl(on))
    plan.nccl = comm::count_nccl(config.parallel.mesh, config.parallel.folding,
                                 engine::group_use(config));
  plan.parameters = model::parameter_count(config.model);
  plan.flops_per_step = engine::training_flops(config).full *
                        static_cast<double>(config.batch.global * config.model.sequence);
  return plan;
}

std::int64_t program_bytes(const PlannedDevice& on) {
  return on.device.is_cuda() ? program_on_gpus : program_on_hosts;
}

namespace {

std::string memory_text(const Plan& plan) {
  std::string text =
      format("memory    total {} on rank {}:",
             human_bytes(static_cast<double>(plan.total_memory())), plan.rank);
  const char* between = " ";
  for (int i = 0; i < memory_classes; ++i) {
    const auto bytes = plan.memory[static_cast<std::size_t>(i)];
    if (bytes == 0) continue;
    text += format("{}{} {}", between, name_of(static_cast<MemoryClass>(i)),
                   human_bytes(static_cast<double>(bytes)));
    between = ", ";
  }
  if (plan.kernel_bytes > 0)
    text += format("; {} of the workspace are the GPU's kernels'",
                   human_bytes(static_cast<double>(plan.kernel_bytes)));
  text += "\n";
  text += phase_table(plan.memory, plan.used, all_memory_classes, 10);
  if (plan.program_bytes > 0)
    text += format(
        "program   about {} more, an estimate: libraries, contexts, what products pack\n",
        human_bytes(static_cast<double>(plan.program_bytes)));
  if (plan.source_bytes > 0)
    text += format("sources   {} of tokens and documents, on the rank that keeps most\n",
                   human_bytes(static_cast<double>(plan.source_bytes)));
  if (plan.copies_bytes > 0)
    text += format("copies    {} of the node's memory for rank {} (checkpoint.partner)\n",
                   human_bytes(static_cast<double>(plan.copies_bytes)), plan.rank);
  if (plan.disk_bytes > 0)
    text +=
        format("disk      {} of {}the optimizer's state of rank {} (parallel.offload)\n",
               human_bytes(static_cast<double>(plan.disk_bytes)),
               plan.disk_weight_bytes > 0 ? "the weights and " : "", plan.rank);
  if (plan.nccl && plan.nccl->communicators > 0)
    text += format(
        "NCCL      about {} more on rank {}, in {} communicators and {} links (an "
        "estimate, not measured)\n",
        human_bytes(static_cast<double>(plan.nccl->estimated_bytes())), plan.rank,
        plan.nccl->communicators, plan.nccl->links);
  return text;
}

// Of data that nobody has read yet.
std::string sources_text(const config::RunConfig& config, const Plan& plan) {
  const bool validates = config.metrics.validate_every > 0;
  if (plan.source_bytes > 0 || !(io::reads_whole_files(config.data) ||
                                 (validates && io::reads_whole_files(config.validation))))
    return "";
  return "sources   texts are read whole, and a plan counts none of them: about 4 bytes "
         "a "
         "token (5 of chat and preference) on each rank that reads samples, and up to 32 "
         "a document or pair on every rank; train and train --check add what the files "
         "take\n";
}

// Neighbours of one size stand in one line; the parameters of all add up to those of the
// ranks listed.
std::string units_text(const config::RunConfig& config, std::span<const Plan> plans) {
  std::vector<TextRow> rows = {{"stage", "unit", "count", "parameters", "share"}};
  for (std::size_t stage = 0; stage < plans.size(); ++stage) {
    const auto& units = plans[stage].units;
    for (std::size_t first = 0; first < units.size();) {
      std::size_t end = first + 1;
      while (end < units.size() && units[end].parameters == units[first].parameters)
        ++end;
      rows.push_back(
          {std::to_string(stage),
           units[first].name + (end > first + 1 ? " to " + units[end - 1].name : ""),
           std::to_string(end - first), std::to_string(units[first].parameters),
           std::to_string(units[first].share)});
      first = end;
    }
  }
  return format(
             "units     parameters of each, and elements in the share of one of {} "
             "ranks\n",
             config.parallel.folding.shard) +
         text_table(rows, 2, 2);
}

std::string pipeline_text(const config::RunConfig& config, std::span<const Plan> plans) {
  const auto outlook = engine::pipeline_outlook(config);
  std::vector<TextRow> rows = {
      {"rank", "blocks", "parameters", "memory", "idle", "live microbatches"}};
  for (std::size_t r = 0; r < outlook.size(); ++r) {
    const auto memory = static_cast<double>(plans[r].total_memory());
    rows.push_back({std::to_string(r), engine::describe_blocks(outlook[r]),
                    std::to_string(plans[r].local_parameters), human_bytes(memory),
                    fixed(100 * outlook[r].idle_share, 1) + " %",
                    std::to_string(outlook[r].live_microbatches)});
  }
  return "pipeline  " + schedule::name_of(config.parallel.schedule) +
         "; idle share if forward and each half of backward take one unit of time\n" +
         text_table(rows, 2, 2);
}

// The stages before the last, which the line of the batch describes.
std::string ramp_text(const config::RunConfig& config) {
  std::string text;
  const std::vector<config::BatchStage> stages = config.stages();
  for (std::size_t i = 0; i + 1 < stages.size(); ++i)
    text += format("ramp      steps {} to {}: {} sequences{}\n", stages[i].first_step,
                   stages[i + 1].first_step - 1, stages[i].global,
                   stages[i].sequence < config.model.sequence
                       ? format(", cut after {} tokens each", stages[i].sequence)
                       : std::string());
  return text;
}

// Nobody knows the routing beforehand.
std::string experts_text(const config::RunConfig& config) {
  if (config.parallel.expert_memory <= 0) return "";
  return format(
      "experts   memory for {} times an even load; messages are those of an even load: "
      "what is beyond that memory takes further rounds, which send more\n",
      config.parallel.expert_memory);
}

// Of data ranks that have a microbatch less than others.
std::string stand_in_text(const config::RunConfig& config) {
  const std::int64_t missing = config.stand_ins(config.batch.global);
  if (missing == 0) return "";
  const std::int64_t all = config.microbatches() * config.parallel.mesh.data;
  return format(
      ", but one less on the last {}: {} % of the work is done to keep in step", missing,
      fixed(100.0 * static_cast<double>(missing) / static_cast<double>(all), 1));
}

}  // namespace

std::string describe(const config::RunConfig& config, std::span<const Plan> plans) {
  const auto& mesh = config.parallel.mesh;
  const Plan& plan = plans.front();
  std::string text;
  text += format(
      "model     {} layers, hidden {}, heads {} ({} key/value), vocabulary {}: {} "
      "parameters ({} on this rank)\n",
      config.model.layers, config.model.hidden, config.model.heads, config.model.kv_heads,
      config.model.vocabulary, plan.parameters, plan.local_parameters);
  text += format("mesh      {} = pipeline {} x data {} x context {} x tensor {}{}\n",
                 counted(mesh.size(), "rank"), mesh.pipeline, mesh.data, mesh.context,
                 mesh.tensor, config.parallel.sequence ? " (sequence parallel)" : "");
  text += format("batch     {} of {} tokens a step: {} of {} on each data rank{}\n",
                 counted(config.batch.global, "sequence"), config.model.sequence,
                 counted(config.microbatches(), "microbatch"), config.batch.micro,
                 stand_in_text(config));
  text += ramp_text(config);
  text += memory_text(plan);
  text += sources_text(config, plan);
  text += experts_text(config);
  if (plan.codes.codes > 0) {
    const auto human = [](std::size_t bytes) {
      return human_bytes(static_cast<double>(bytes));
    };
    text += format(
        "codes     {} of frozen weights ({}) in place of {} of numbers, {} of which are "
        "there at a time\n",
        human(plan.codes.codes), name_of(config.adapter.quantize),
        human(plan.codes.numbers), human(plan.codes.working));
  }
  if (config.parallel.sharding != optim::Sharding::none)
    text += units_text(config, plans);
  const auto add_traffic = [&](const std::vector<engine::TrafficRow>& rows,
                               const std::string& of) {
    const std::string table = engine::traffic_table(rows, 1,
                                                    plan.timing.step_seconds > 0
                                                        ? engine::TrafficColumns::exposed
                                                        : engine::TrafficColumns::bytes);
    if (!table.empty())
      text += format("traffic   {} of rank {}\n", of, plan.rank) + table;
  };
  add_traffic(plan.traffic, "a step");
  add_traffic(plan.round_traffic, format("the mean of the copies, every {} steps,",
                                         config.optimizer.outer.every));
  if (mesh.pipeline > 1) text += pipeline_text(config, plans);
  text += format("work      {}FLOP a step ({} a token)", human_count(plan.flops_per_step),
                 human_count(engine::training_flops(config).full));
  return text;
}

}  // namespace trireme::plan
