// `trireme plan DECK [section.key=value ...] [--ranks N] [--machine FILE]`.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

#include <optional>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "app/memory_check.hpp"
#include "base/log.hpp"
#include "launch/compute_device.hpp"
#include "plan/prediction.hpp"

namespace trireme::app {

namespace {

// Where a machine file says that ranks have GPUs, the plan is for GPUs, whatever this
// machine has; the deck's own wish goes first.
plan::PlannedDevice planned_device(const config::RunSettings& run,
                                   const std::optional<plan::Machine>& machine) {
  if (!machine || run.device != config::DeviceChoice::automatic) {
    const auto on = launch::expected_device(run.device, run.backend, run.share_gpus);
    return {on.device, on.transport, machine ? &*machine : nullptr};
  }
  if (!machine->gpus) return {Device::host(), comm::Transport::mpi, &*machine};
  return {
      Device::cuda(0),
      run.backend == comm::Backend::mpi ? comm::Transport::mpi : comm::Transport::nccl,
      &*machine};
}

}  // namespace

int plan(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  LoadedDeck deck;
  std::optional<plan::Machine> machine;
  int ranks = 1;
  world.agree([&] {
    constexpr Option options[] = {{"--ranks", true}, {"--machine", true}};
    arguments.parse(
        "trireme plan DECK [section.key=value ...] [--ranks N] [--machine FILE]", options,
        1, 10000);
    ranks = static_cast<int>(arguments.integer("--ranks", world.size(), 1, 1 << 24));
    deck = load_deck(arguments.words(), ranks);
    if (arguments.has("--machine"))
      machine = plan::read_machine(arguments.text("--machine", ""));
  });
  const plan::PlannedDevice on = planned_device(deck.config.run, machine);
  const std::vector<plan::Plan> plans = plan::plan_stages(deck.config, on);
  log::line(plan::describe(deck.config, plans));
  if (!machine) return 0;
  log::line(plan::describe(plan::predict(deck.config, plans, *machine), *machine));
  world.agree([&] {
    require_room(arguments.words(), ranks, 0, deck.config, plans, on, room_on(*machine));
  });
  return 0;
}

}  // namespace trireme::app
