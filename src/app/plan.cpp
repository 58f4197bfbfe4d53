// `trireme plan DECK [section.key=value ...] [--ranks N]`.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "base/log.hpp"
#include "launch/compute_device.hpp"

namespace trireme::app {

int plan(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  LoadedDeck deck;
  world.agree([&] {
    constexpr Option options[] = {{"--ranks", true}};
    arguments.parse("trireme plan DECK [section.key=value ...] [--ranks N]", options, 1,
                    10000);
    const auto ranks = arguments.integer("--ranks", world.size(), 1, 1 << 24);
    deck = load_deck(arguments.words(), static_cast<int>(ranks));
  });
  const config::RunSettings& run = deck.config.run;
  const auto on = launch::expected_device(run.device, run.backend, run.share_gpus);
  log::line(plan::describe(deck.config,
                           plan::plan_stages(deck.config, {on.device, on.transport})));
  return 0;
}

}  // namespace trireme::app
