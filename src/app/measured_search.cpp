// Steps of the best decks of a search, and the order that they give.
// SPDX-License-Identifier: Apache-2.0
#include "app/measured_search.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "app/benched_step.hpp"
#include "base/median.hpp"
#include "base/text_table.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::app {

void measure_decks(comm::World& world, const plan::SearchDeck& deck,
                   const plan::Machine& machine, std::vector<MeasuredDeck>& decks) {
  const config::RunSettings run = deck.read({}).run;
  const kernels::Runtime runtime(run.threads, world.ranks_on_node());
  const launch::ComputeDevice on =
      launch::choose_device(world, run.device, run.backend, run.share_gpus);
  world.agree([&] {
    require(
        on.device.is_cuda() == machine.gpus, Status::resources,
        "--measure: these ranks compute on {}, and the machine file of '{}' is one of "
        "{}: start them there, or give a file of this machine",
        on.device.is_cuda() ? "GPUs" : "CPUs", machine.name,
        machine.gpus ? "GPUs" : "CPUs");
  });
  for (MeasuredDeck& one : decks) {
    std::optional<config::RunConfig> config;
    world.agree([&] {
      config = config::make_run_config(deck.deck(one.overrides), deck.ranks,
                                       deck.ranks_on_node);
    });
    BenchedStep step(world, *config, on);
    for (int i = 0; i < warming_steps; ++i) step.run();
    std::vector<double> seconds;
    for (int i = 0; i < measured_steps; ++i) seconds.push_back(step.run());
    one.measured_seconds = median(seconds);
  }
}

std::vector<std::size_t> order_of(const std::vector<MeasuredDeck>& decks) {
  std::vector<std::size_t> places(decks.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    return decks[a].measured_seconds < decks[b].measured_seconds;
  });
  return places;
}

std::string describe(const std::vector<MeasuredDeck>& decks,
                     const std::vector<std::size_t>& places) {
  std::vector<TextRow> rows = {
      {"", "place of the search", "predicted", "measured", "off"}};
  std::vector<double> off;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const MeasuredDeck& one = decks[places[i]];
    const double error = one.predicted_seconds / one.measured_seconds - 1;
    off.push_back(std::abs(error));
    rows.push_back({std::to_string(i + 1), std::to_string(places[i] + 1),
                    human_seconds(one.predicted_seconds),
                    human_seconds(one.measured_seconds), fixed(100 * error, 1) + " %"});
  }
  const double gained =
      decks.front().measured_seconds / decks[places.front()].measured_seconds - 1;
  return format(
             "measured  the best {}, {} steps each after {}: predictions are {} % off in "
             "the median; {}\n",
             decks.size(), measured_steps, warming_steps, fixed(100 * median(off), 1),
             places.front() == 0
                 ? std::string("the first of the search is the fastest")
                 : format(
                       "number {} of the search is the fastest, and the first takes {} "
                       "% longer",
                       places.front() + 1, fixed(100 * gained, 1))) +
         text_table(rows, 0, 2);
}

}  // namespace trireme::app
