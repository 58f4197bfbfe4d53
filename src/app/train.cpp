// `trireme train DECK [section.key=value ...] [--check [--ranks N]]`.
// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "app/memory_check.hpp"
#include "app/run_record.hpp"
#include "app/sweep_manifest.hpp"
#include "base/log.hpp"
#include "base/output.hpp"
#include "base/version.hpp"
#include "comm/stop_signals.hpp"
#include "config/recipe_table.hpp"
#include "convert/model_folder.hpp"
#include "engine/group_use.hpp"
#include "kernels/runtime/runtime.hpp"
#include "launch/compute_device.hpp"
#include "launch/startup_report.hpp"
#include "plan/plan.hpp"
#include "selftest/pass_record.hpp"
#include "text/text_source.hpp"
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
  const auto manifest = SweepManifest::read(arguments.text("--manifest", ""));
  const auto last = static_cast<std::int64_t>(manifest.points.size()) - 1;
  return manifest.deck_words(arguments.integer("--index", 0, 0, last));
}

// Every problem that can be found without training: the deck's, then the data's.
int check(comm::World& world, const LoadedDeck& deck, const Arguments& arguments,
          int on_node) {
  world.agree([&] {
    text::open_source(deck.config.data);
    if (deck.config.metrics.validate_every > 0) text::open_source(deck.config.validation);
    train::TextSamples prompts(deck.config);
    if (!deck.config.start_from.empty())
      convert::open_tensors(deck.config.start_from, world.rank(), world.size());
  });
  const config::RunSettings& run = deck.config.run;
  const auto on = launch::expected_device(run.device, run.backend, run.share_gpus);
  const plan::PlannedDevice planned{on.device, on.transport};
  const std::vector<plan::Plan> plans = plan::plan_stages(deck.config, planned);
  log::line(plan::describe(deck.config, plans));
  log::line(config::describe_recipe(deck.config));
  // For ranks that were started here; where others would run is not known.
  if (!arguments.has("--ranks"))
    world.agree([&] {
      require_room(deck_words(arguments), world.size(), on_node, deck.config, plans,
                   planned, room_here(on, on_node));
    });
  log::info("the deck is good");
  return 0;
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

}  // namespace

int train(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  LoadedDeck deck;
  // Every rank must resolve the deck alike: the smallest node decides.
  const int on_node = -static_cast<int>(world.max(-world.ranks_on_node()));
  world.agree([&] {
    constexpr Option options[] = {
        {"--check", false}, {"--ranks", true}, {"--manifest", true}, {"--index", true}};
    arguments.parse(
        "trireme train DECK [section.key=value ...] [--check [--ranks N]], or "
        "trireme train --manifest FILE --index N",
        options, 0, 10000);
    require(arguments.has("--check") || !arguments.has("--ranks"), Status::command_line,
            "--ranks goes with --check; a run has the ranks that srun or mpirun started");
    const auto ranks = arguments.integer("--ranks", world.size(), 1, 1 << 24);
    deck = load_deck(deck_words(arguments), static_cast<int>(ranks),
                     arguments.has("--ranks") ? 0 : on_node);
  });
  launch::check_same_everywhere(world, deck.effective);
  if (arguments.has("--check")) {
    comm::leave_on_stop();
    return check(world, deck, arguments, on_node);
  }

  output::outlive_reader(
      "the run goes on, and metrics.jsonl has its steps; lines of the log are lost");
  const kernels::Runtime runtime(deck.config.run.threads, world.ranks_on_node());
  const config::RunSettings& run = deck.config.run;
  const launch::ComputeDevice on =
      launch::choose_device(world, run.device, run.backend, run.share_gpus);
  log::info("trireme {}  run {} in {}  {} ranks, {} threads each, {}",
            build_info().version, run.name, run.directory, world.size(),
            kernels::threads(), on.describe());
  launch::report_placement(world, on, kernels::threads());
  ask_for_selftest(world, on);
  world.agree([&] {
    if (world.rank() != 0) return;
    const plan::PlannedDevice planned{on.device, on.transport};
    const std::vector<plan::Plan> plans = plan::plan_stages(deck.config, planned);
    log::line(plan::describe(deck.config, plans));
    require_room(deck_words(arguments), world.size(), on_node, deck.config, plans,
                 planned, room_here(on, on_node));
  });
  RunRecord record(world, run);
  return static_cast<int>(recorded(record, [&] {
    comm::Mesh mesh(world, deck.config.parallel.mesh, deck.config.parallel.folding,
                    on.device, on.transport, engine::group_use(deck.config));
    train::Trainer trainer(world, mesh, deck.config, deck.effective, on.gpu);
    record.started(trainer.steps_done());
    return trainer.run();
  }));
}

}  // namespace trireme::app
