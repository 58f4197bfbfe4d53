// The table of commands.
// SPDX-License-Identifier: Apache-2.0
#include "app/app.hpp"

#include <algorithm>
#include <array>

#include "base/log.hpp"
#include "comm/stop_signals.hpp"

namespace trireme::app {
namespace {

struct Command {
  std::string_view name;
  int (*run)(comm::World&, const Arguments&);
  bool saves_on_stop = false;  // it answers signals itself
};

constexpr std::array commands = {
    Command{"train", train, true}, Command{"plan", plan},
    Command{"generate", generate}, Command{"evaluate", evaluate},
    Command{"inspect", inspect},   Command{"bench", bench},
    Command{"sweep", sweep},       Command{"report", report},
    Command{"help", help},         Command{"--help", help},
    Command{"--version", version},
};

}  // namespace

int run(comm::World& world, int argc, char** argv) {
  log::set_rank(world.rank());
  const std::string name = argc > 1 ? argv[1] : "help";
  const auto* const command = std::find_if(
      commands.begin(), commands.end(), [&](const Command& c) { return c.name == name; });
  const Arguments arguments(
      std::vector<std::string>(argv + std::min(argc, 2), argv + argc));
  if (command == commands.end()) {
    throw comm::Agreed(Status::command_line,
                       "unknown command '" + name + "'; see 'trireme help'");
  }
  if (!command->saves_on_stop) comm::leave_on_stop();
  return command->run(world, arguments);
}

}  // namespace trireme::app
