// `trireme train DECK [section.key=value ...] [--check [--ranks N]]`.
// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "kernels/runtime.hpp"
#include "plan/plan.hpp"
#include "train/compute_device.hpp"
#include "train/recipe_table.hpp"
#include "train/startup_report.hpp"
#include "train/trainer.hpp"

namespace trireme::app {
namespace {

// Every problem that can be found without training: the deck's, then the data's.
int check(comm::World& world, const LoadedDeck& deck) {
  world.agree([&] {
    io::open_source(deck.config.data);
    if (deck.config.metrics.validate_every > 0) io::open_source(deck.config.validation);
  });
  log::line(plan::describe(deck.config, plan::plan_stages(deck.config)));
  log::line(train::describe_recipe(deck.config));
  log::info("the deck is good");
  return 0;
}

}  // namespace

int train(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  LoadedDeck deck;
  // Every rank must resolve the deck alike: the smallest node decides.
  const int on_node = -static_cast<int>(world.max(-world.ranks_on_node()));
  world.agree([&] {
    constexpr Option options[] = {{"--check", false}, {"--ranks", true}};
    arguments.parse("trireme train DECK [section.key=value ...] [--check [--ranks N]]",
                    options, 1, 10000);
    require(arguments.has("--check") || !arguments.has("--ranks"), Status::command_line,
            "--ranks goes with --check; a run has the ranks that srun or mpirun started");
    const auto ranks = arguments.integer("--ranks", world.size(), 1, 1 << 24);
    deck = load_deck(arguments.words(), static_cast<int>(ranks),
                     arguments.has("--ranks") ? 0 : on_node);
  });
  train::check_same_everywhere(world, deck.effective);
  if (arguments.has("--check")) return check(world, deck);

  const kernels::Runtime runtime(deck.config.run.threads, world.ranks_on_node());
  const train::RunSettings& run = deck.config.run;
  const train::ComputeDevice on =
      train::choose_device(world, run.device, run.backend, run.share_gpus);
  log::info("trireme {}  run {} in {}  {} ranks, {} threads each, {}",
            build_info().version, run.name, run.directory, world.size(),
            kernels::threads(), on.describe());
  train::report_placement(world, on, kernels::threads());
  world.agree([&] {
    if (log::speaks())
      log::line(plan::describe(deck.config, plan::plan_stages(deck.config)));
  });
  comm::Mesh mesh(world, deck.config.parallel.mesh, deck.config.parallel.folding,
                  on.device, on.transport);
  train::Trainer trainer(world, mesh, deck.config, deck.effective, on.gpu);
  return static_cast<int>(trainer.run());
}

}  // namespace trireme::app
