// Decks of commands and of checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "app/deck_arguments.hpp"

#include "config/deck_table.hpp"
#include "config/keys.hpp"

namespace trireme::app {

LoadedDeck load_deck(const std::vector<std::string>& words, int ranks,
                     int ranks_on_node) {
  const std::vector<std::string> overrides(words.begin() + 1, words.end());
  const auto run = config::load_run(words.front(), overrides, ranks, ranks_on_node);
  return {run.config, run.deck.effective()};
}

config::RunConfig checkpoint_config(const io::CheckpointReader& reader) {
  const auto deck = io::Deck::parse(
      reader.info().deck, reader.directory() + " (its deck)", {}, config::deck_table());
  return config::make_run_config(deck, reader.info().mesh.size());
}

launch::ComputeDevice device_of(comm::World& world, const Arguments& arguments) {
  const std::string wanted = arguments.text("--device", "auto");
  const config::DeviceChoice* choice = config::key::run.device.find(wanted);
  world.agree([&] {
    require(choice != nullptr, Status::command_line,
            "--device: '{}' is none of auto, cpu and cuda", wanted);
  });
  return launch::choose_device(world, *choice, comm::Backend::automatic, false);
}

}  // namespace trireme::app
