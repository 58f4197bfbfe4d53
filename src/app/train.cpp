// `trireme train DECK [section.key=value ...] [--check [--ranks N]] [--machine FILE]`.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "app/export_note.hpp"
#include "app/memory_check.hpp"
#include "app/planned_device.hpp"
#include "app/run_record.hpp"
#include "app/sweep_manifest.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/median.hpp"
#include "base/out_of_memory.hpp"
#include "base/output.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "comm/hosts.hpp"
#include "comm/rank_names.hpp"
#include "comm/start_limit.hpp"
#include "comm/stop_signals.hpp"
#include "comm/watchdog.hpp"
#include "config/recipe_table.hpp"
#include "data/text_source.hpp"
#include "engine/group_use.hpp"
#include "io/files.hpp"
#include "io/metrics.hpp"
#include "io/token_table.hpp"
#include "kernels/runtime/cuda_version.hpp"
#include "kernels/runtime/runtime.hpp"
#include "launch/compute_device.hpp"
#include "launch/group_placement.hpp"
#include "launch/startup_report.hpp"
#include "optim/disk_windows.hpp"
#include "plan/prediction.hpp"
#include "selftest/pass_record.hpp"
#include "train/partner_copies.hpp"
#include "train/start.hpp"
#include "train/trainer.hpp"

namespace trireme::app {
namespace {

// DECK and overrides: as given, or those of a sweep's point.
std::vector<std::string> deck_words(const Arguments& arguments) {
  const bool point = arguments.has("--manifest");
  require(point == arguments.has("--index"), Status::command_line,
          "--manifest FILE and --index N go together");
  require(point == arguments.words().empty(), Status::command_line, "{}",
          point
              ? "a point of a sweep takes no deck and no overrides: its manifest has them"
              : "which deck? usage: trireme train DECK [section.key=value ...]");
  if (!point) return arguments.words();
  return point_words(arguments);
}

// That this rank can write where the run does.
void require_folders(const comm::World& world, const config::RunConfig& config) {
  if (world.rank() == 0) require_run_directory(config.run.directory);
  const config::ParallelSettings& parallel = config.parallel;
  if (optim::is_on_disk(parallel.offload))
    optim::offload_folder(parallel.offload_directory, world.rank());
}

// The data of a deck, opened as for training.
struct CheckedData {
  std::int64_t kept = 0;                    // bytes, on a rank that reads samples
  std::vector<train::ReferencePart> pairs;  // to learn from
  std::vector<std::unique_ptr<io::SampleSource>> sources;  // of these

  void open(const config::RunConfig& config) {
    io::TokenTable texts;
    const io::TokenTableInUse in_use(texts);
    add("training", config, config.data);
    if (config.metrics.validate_every > 0) add("validation", config, config.validation);
    kept += texts.bytes();
    const train::TextSamples prompts(config);
  }

 private:
  void add(const char* name, const config::RunConfig& config,
           const io::SourceConfig& data) {
    auto source = data::open_source(data);
    kept += source->kept_bytes() + train::reference_bytes(*source);
    engine::document_rule(data, *source, 0);  // throws where it cannot be kept
    if (!config.learns_pairs() || source->answers() == 0) return;
    pairs.push_back({.name = name, .source = source.get()});
    sources.push_back(std::move(source));
  }
};

// Every problem that can be found without training: the deck's, then the data's.
int check(comm::World& world, const LoadedDeck& deck, const Arguments& arguments,
          int on_node, const plan::Machine* machine) {
  CheckedData data;
  world.agree([&] { data.open(deck.config); });
  const config::RunSettings& run = deck.config.run;
  world.agree([&] {
    if (!arguments.has("--ranks")) launch::require_built_for(run.device);
  });
  const auto on = launch::expected_device(run.device, run.backend, run.share_gpus);
  const bool elsewhere = arguments.has("--ranks");
  const plan::MemoryRoom room = machine     ? room_on(*machine)
                                : elsewhere ? plan::MemoryRoom{}
                                            : room_here(on, on_node);
  world.agree([&] {
    require_room_for_weights(deck.config, deck.config.parallel.mesh.size(), room);
  });
  train::check_start(world, deck.config, deck.effective, on, data.pairs);
  plan::PlannedDevice planned;
  world.agree([&] {
    planned = planned_device(run, machine, planning_threads(world.ranks_on_node()));
  });
  std::vector<plan::Plan> plans = plan::plan_stages(deck.config, planned);
  for (plan::Plan& stage : plans) stage.source_bytes = data.kept;
  log::line(wrapped(plan::describe(deck.config, plans), terminal::prose_columns(), 10));
  log::line(config::describe_recipe(deck.config));
  tell_of_export(deck.config.model);
  world.agree([&] {
    if (!elsewhere) require_folders(world, deck.config);
  });
  if (!elsewhere && deck.config.checkpoint.partner > 0)
    train::check_copies(world, deck.config);
  world.agree([&] {
    require_room(deck_words(arguments), deck.config.parallel.mesh.size(),
                 elsewhere ? 0 : on_node, deck.config, plans, planned, room);
  });
  log::info(
      "the deck is good{}",
      elsewhere && machine == nullptr
          ? "; whether it fits in memory depends on where it runs: add --machine FILE"
          : "");
  return 0;
}

// How far the predicted step was from the median of those from `before` to `last`, but
// for the first two, in which kernels and libraries set up. On rank 0.
void report_prediction(double predicted, const std::string& directory,
                       std::int64_t before, std::int64_t last) {
  std::vector<double> seconds;
  for (const io::StepLine& line :
       io::read_steps(directory + "/metrics.jsonl", last, last - before))
    if (line.step > before + 2 && std::isfinite(line.step_seconds))
      seconds.push_back(line.step_seconds);
  if (seconds.empty()) return;
  const double measured = median(seconds);
  log::info("predicted a step of {}; the median of {} was {}: {} % off",
            human_seconds(predicted), seconds.size(), human_seconds(measured),
            fixed(100 * (predicted / measured - 1), 1));
}

// Once, where a GPU computes that this build has not been tested on by this user. CPUs
// are what the project's own tests run on.
void ask_for_selftest(const comm::World& world, const launch::ComputeDevice& on) {
  if (world.rank() != 0 || !on.device.is_cuda() || selftest::has_passed(on.gpu)) return;
  log::info(
      "this build has no self-test on {} behind it; a minute now may save a run: srun or "
      "mpirun -n {} trireme selftest --device cuda",
      on.gpu.name, world.size());
}

// What a deck gives up for speed.
void warn_of_any_order(const comm::World& world, const config::RunSettings& run,
                       const launch::ComputeDevice& on) {
  if (world.rank() != 0 || !on.device.is_cuda() || run.attention_deterministic) return;
  if (!kernels::cudnn_is_built()) {
    log::warn(
        "attention.deterministic = false changes nothing: this program has no cuDNN, and "
        "own kernels add in a fixed order");
    return;
  }
  log::warn(
      "attention.deterministic = false: backward of attention by cuDNN {} adds in any "
      "order, so that a run that is repeated or goes on after a stop has other bits",
      kernels::cudnn_version());
}

void warn_of_placement(const comm::World& world, const config::ParallelSettings& mesh) {
  if (world.rank() != 0) return;
  const std::string text =
      launch::placement_warning(mesh.mesh, mesh.folding.shard, comm::hosts_of(world));
  if (!text.empty()) log::warn("{}", text);
  if (mesh.sharding < optim::Sharding::weights) return;
  if (const std::string ring = launch::long_ring_warning(mesh.folding.shard);
      !ring.empty())
    log::warn("{}", ring);
}

void report_start(comm::World& world, const config::RunConfig& config,
                  const launch::ComputeDevice& on) {
  launch::report_placement(world, on, kernels::threads());
  warn_of_placement(world, config.parallel);
  warn_of_any_order(world, config.run, on);
  ask_for_selftest(world, on);
}

// The plan for the log: in lines of its columns, and without the memory, which is told
// with what is held.
std::string plan_text(const config::RunConfig& config,
                      const std::vector<plan::Plan>& plans) {
  std::string text =
      wrapped(plan::describe(config, plans), terminal::prose_columns(), 10);
  const auto begin = text.find("\nmemory  ");
  if (begin == std::string::npos) return text;
  auto end = text.find('\n', begin + 1);
  const std::string_view blanks = "\n          ";
  while (end != std::string::npos && text.compare(end, blanks.size(), blanks) == 0)
    end = text.find('\n', end + 1);
  return text.erase(begin, end - begin);
}

// Prints the plan. Throws Error(resources) if the deck does not fit.
train::PlannedRun plan_here(const comm::World& world, const Arguments& arguments,
                            const LoadedDeck& deck,
                            const std::optional<plan::Machine>& machine,
                            const launch::ComputeDevice& on, int on_node) {
  const plan::PlannedDevice planned{on.device, on.transport,
                                    machine ? &*machine : nullptr, on.gpu_bytes,
                                    kernels::threads()};
  require_room_for_weights(deck.config, world.size(), room_here(on, on_node));
  const std::vector<plan::Plan> plans = plan::plan_stages(deck.config, planned);
  log::line(plan_text(deck.config, plans));
  require_room(deck_words(arguments), world.size(), on_node, deck.config, plans, planned,
               room_here(on, on_node));
  train::PlannedRun planned_run;
  planned_run.memory = plans.front().rank == 0
                           ? plans.front().memory
                           : plan::make_plan(deck.config, 0, planned).memory;
  planned_run.make_room_for_data = [=, stages = plans, config = deck.config,
                                    words = deck_words(arguments),
                                    ranks = world.size()](std::int64_t bytes) mutable {
    for (plan::Plan& stage : stages) stage.source_bytes = bytes;
    require_room(words, ranks, on_node, config, stages, planned, room_here(on, on_node));
  };
  if (!machine) return planned_run;
  const plan::Prediction prediction = plan::predict(deck.config, plans, *machine);
  log::line(wrapped(plan::describe(prediction, *machine), terminal::prose_columns(), 10));
  planned_run.step_seconds = prediction.step_seconds;
  return planned_run;
}

// What an allocation that fails after all is told.
void advise_on(const Arguments& arguments, int ranks, int on_node,
               const config::RunConfig& config,
               const std::optional<plan::Machine>& machine,
               const launch::ComputeDevice& on) {
  advise_on_memory([=, words = deck_words(arguments)] {
    return out_of_memory_text(
        words, ranks, on_node, config,
        {on.device, on.transport, machine ? &*machine : nullptr, on.gpu_bytes});
  });
}

constexpr std::pair<std::string_view, log::Level> levels[] = {
    {"error", log::Level::error},
    {"warning", log::Level::warning},
    {"info", log::Level::info},
    {"debug", log::Level::debug}};

// --quiet, --log-level and --log-dir. Collective: the folder is made by rank 0.
void set_log(comm::World& world, const Arguments& arguments) {
  world.agree([&] {
    require(!arguments.has("--quiet") || !arguments.has("--log-level"),
            Status::command_line, "--quiet is --log-level warning: give one of them");
    const std::string wanted =
        arguments.text("--log-level", arguments.has("--quiet") ? "warning" : "info");
    const auto* const level =
        std::find_if(std::begin(levels), std::end(levels),
                     [&](const auto& known) { return known.first == wanted; });
    require(level != std::end(levels), Status::command_line,
            "--log-level {}: is none of error, warning, info and debug", wanted);
    log::set_level(level->second);
    if (arguments.has("--log-dir") && world.rank() == 0)
      io::make_directories(arguments.text("--log-dir", ""));
  });
  if (!arguments.has("--log-dir")) return;
  world.agree([&] {
    log::open_file(arguments.text("--log-dir", "") + "/rank-" +
                   comm::five_digits(world.rank()) + ".log");
  });
}

void read_command_line(const comm::World& world, int on_node, Arguments& arguments,
                       LoadedDeck& deck, std::optional<plan::Machine>& machine) {
  constexpr Option options[] = {{"--check", false},    {"--ranks", true},
                                {"--manifest", true},  {"--index", true},
                                {"--machine", true},   {"--quiet", false},
                                {"--log-level", true}, {"--log-dir", true}};
  arguments.parse(
      "trireme train DECK [section.key=value ...] [--check [--ranks N]] "
      "[--machine FILE] [--quiet | --log-level L] [--log-dir DIR], or "
      "trireme train --manifest FILE --index N",
      options, 0, 10000);
  require(arguments.has("--check") || !arguments.has("--ranks"), Status::command_line,
          "--ranks goes with --check; a run has the ranks that srun or mpirun started");
  const auto ranks = arguments.integer("--ranks", world.size(), 1, 1 << 24);
  deck = load_deck(deck_words(arguments), static_cast<int>(ranks),
                   arguments.has("--ranks") ? 0 : on_node);
  if (arguments.has("--machine"))
    machine = plan::read_machine(arguments.text("--machine", ""));
}

// For how long ranks wait for each other at the start, which has no parts that get on one
// by one: it is given more time than a step.
double start_limit(const config::HealthSettings& health) {
  return health.timeout_seconds * health.slow_factor;
}

// What the deck says of the world.
void set_up(comm::World& world, const config::RunConfig& config) {
  world.set_timeout(start_limit(config.health));
  world.set_nccl_sharing(config.run.nccl_sharing);
}

comm::WatchdogConfig watch_of(const config::RunConfig& config,
                              const launch::ComputeDevice& on) {
  return {config.health.watchdog_seconds, config.health.slow_factor,
          config.run.directory + "/flight",
          on.device.is_cuda() ? "GPU " + on.gpu.pci_bus_id : ""};
}

// Every rank must resolve the deck alike: the smallest node decides.
int ranks_on_smallest_node(comm::World& world) {
  return -static_cast<int>(world.max(-world.ranks_on_node()));
}

}  // namespace

int train(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  LoadedDeck deck;
  std::optional<plan::Machine> machine;
  comm::limit_start(world);  // until the deck says more
  const int on_node = ranks_on_smallest_node(world);
  world.agree([&] { read_command_line(world, on_node, arguments, deck, machine); });
  set_up(world, deck.config);
  set_log(world, arguments);
  launch::check_same_everywhere(world, deck.effective);
  if (arguments.has("--check")) {
    comm::leave_on_stop();
    return check(world, deck, arguments, on_node, machine ? &*machine : nullptr);
  }

  output::outlive_reader(
      "the run goes on, and metrics.jsonl has its steps; lines of the log are lost");
  const kernels::Runtime runtime(deck.config.run.threads, world.ranks_on_node());
  const config::RunSettings& run = deck.config.run;
  const launch::ComputeDevice on =
      launch::choose_device(world, run.device, run.backend, run.share_gpus);
  deck.config.run.gpu_bytes = on.gpu_bytes;
  if (log::speaks())
    log::line(
        wrapped(format("trireme {}  run {} in {}  {}, {} each, {}", build_info().version,
                       run.name, run.directory, counted(world.size(), "rank"),
                       counted(kernels::threads(), "thread"), on.describe()),
                terminal::prose_columns(), 10));
  report_start(world, deck.config, on);
  tell_of_export(deck.config.model);
  train::PlannedRun planned;
  world.agree([&] {
    if (world.rank() == 0)
      planned = plan_here(world, arguments, deck, machine, on, on_node);
  });
  advise_on(arguments, world.size(), on_node, deck.config, machine, on);
  RunRecord record(world, run, start_limit(deck.config.health));
  std::int64_t before = 0;
  const int status = static_cast<int>(recorded(record, [&] {
    comm::Watchdog watchdog(world, watch_of(deck.config, on));
    watchdog.beat_slow("connecting ranks");
    comm::Mesh mesh(world, deck.config.parallel.mesh, deck.config.parallel.folding,
                    on.device, on.transport, engine::group_use(deck.config));
    train::Trainer trainer(world, mesh, watchdog, deck.config, deck.effective, on.gpu,
                           planned);
    before = trainer.steps_done();
    record.started(before, trainer.start_name());
    const Status ended = trainer.run();
    watchdog.beat_slow("ending");
    return ended;
  }));
  if (machine && status == static_cast<int>(Status::done)) {
    world.agree([&] {
      if (world.rank() == 0)
        report_prediction(planned.step_seconds, run.directory, before, run.steps);
    });
  }
  return status;
}

}  // namespace trireme::app
