// The table of commands.
// SPDX-License-Identifier: Apache-2.0
#include "app/app.hpp"

#include <algorithm>
#include <array>

#include "base/log.hpp"
#include "base/output.hpp"
#include "comm/launcher.hpp"
#include "comm/stop_signals.hpp"
#include "io/deck.hpp"

namespace trireme::app {
namespace {

struct Command {
  std::string_view name;
  int (*run)(comm::World&, const Arguments&);
  bool saves_on_stop = false;  // it answers signals itself
};

constexpr std::array commands = {
    Command{"train", train, true}, Command{"plan", plan},
    Command{"init", init},         Command{"generate", generate},
    Command{"chat", chat},         Command{"evaluate", evaluate},
    Command{"inspect", inspect},   Command{"convert", convert},
    Command{"tokenize", tokenize}, Command{"encode", encode},
    Command{"decode", decode},     Command{"bench", bench},
    Command{"sweep", sweep},       Command{"report", report},
    Command{"selftest", selftest}, Command{"help", help},
    Command{"--help", help},       Command{"-h", help},
    Command{"version", version},   Command{"--version", version},
    Command{"-V", version},
};

// What other programs call what a command here does.
struct PeerWord {
  std::string_view name, command;
};

constexpr std::array peer_commands = {
    PeerWord{"pretrain", "train"},   PeerWord{"finetune", "train"},
    PeerWord{"fine-tune", "train"},  PeerWord{"sft", "train"},
    PeerWord{"run", "train"},        PeerWord{"launch", "train"},
    PeerWord{"resume", "train"},     PeerWord{"check", "plan"},
    PeerWord{"memory", "plan"},      PeerWord{"estimate-memory", "plan"},
    PeerWord{"config", "init"},      PeerWord{"new", "init"},
    PeerWord{"infer", "generate"},   PeerWord{"inference", "generate"},
    PeerWord{"sample", "generate"},  PeerWord{"complete", "generate"},
    PeerWord{"eval", "evaluate"},    PeerWord{"perplexity", "evaluate"},
    PeerWord{"info", "inspect"},     PeerWord{"show", "inspect"},
    PeerWord{"verify", "inspect"},   PeerWord{"export", "convert"},
    PeerWord{"import", "convert"},   PeerWord{"merge", "convert"},
    PeerWord{"quantize", "convert"}, PeerWord{"preprocess", "tokenize"},
    PeerWord{"benchmark", "bench"},  PeerWord{"tune", "sweep"},
    PeerWord{"plot", "report"},      PeerWord{"tensorboard", "report"},
    PeerWord{"test", "selftest"},    PeerWord{"env", "version"},
    PeerWord{"doctor", "selftest"},  PeerWord{"validate", "evaluate"},
    PeerWord{"search", "plan"},      PeerWord{"lint", "plan"},
    PeerWord{"status", "sweep"},     PeerWord{"submit", "sweep"},
    PeerWord{"resubmit", "sweep"},   PeerWord{"view", "report"},
    PeerWord{"metrics", "report"},   PeerWord{"serve", "chat"},
    PeerWord{"dpo", "train"},        PeerWord{"completion", "help"},
    PeerWord{"schema", "help"},      PeerWord{"man", "help"},
};

constexpr bool exists(std::string_view name) {
  return std::any_of(commands.begin(), commands.end(),
                     [&](const Command& c) { return c.name == name; });
}
static_assert(std::all_of(peer_commands.begin(), peer_commands.end(),
                          [](const PeerWord& p) {
                            return exists(p.command) && !exists(p.name);
                          }));

const Command* find_command(std::string_view name) {
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const Command& c) { return c.name == name; });
  return found == commands.end() ? nullptr : &*found;
}

[[noreturn]] void refuse(const std::string& name) {
  const std::string nearest = nearest_command(name);
  throw comm::Agreed(
      Status::command_line,
      format("unknown command '{}'; {}see 'trireme help'", name,
             nearest.empty() ? "" : format("did you mean '{}'? ", nearest)));
}

// What a command says on standard output is a result as its files are: it arrives whole,
// or the command has failed. A status that asks for something else asks for it still.
int with_output(comm::World& world, int status) {
  if (status == static_cast<int>(Status::done)) {
    world.agree([&] {
      if (world.rank() == 0) output::require_whole();
    });
  } else if (const std::string why = output::why_lost();
             world.rank() == 0 && !why.empty()) {
    log::warn_beside_output("standard output is not whole: {}", why);
  }
  return status;
}

// The command and its words. `trireme train --help`, as many programs have it, asks for
// help with the first or the last word.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) return {"help"};
  const auto asks = [](const std::string& word) {
    return word == "--help" || word == "-h";
  };
  const Command* const command = find_command(words.front());
  if (words.size() > 1 && (asks(words[1]) || asks(words.back())) && command != nullptr) {
    if (command->run == help) return {"help", "help"};
    return {"help", command->run == version ? "version" : words.front()};
  }
  return words;
}

// Whether a command runs a model, on any number of ranks; others read and write files.
bool computes(const std::vector<std::string>& words) {
  const auto has = [&](std::string_view option) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return word.substr(0, word.find('=')) == option;
    });
  };
  const Command* const command = find_command(words.front());
  if (command == nullptr) return false;
  if (command->run == train) return !has("--check");
  if (command->run == plan) return has("--measure");
  for (const auto& run : {generate, chat, evaluate, bench, selftest})
    if (command->run == run) return true;
  return false;
}

}  // namespace

std::string nearest_command(const std::string& name) {
  // Names of other programs' commands are found with one slip, ours with three.
  std::string nearest;
  int least = 4;
  const auto look = [&](std::string_view known, std::string_view command, int most) {
    const int distance = io::edit_distance(name.substr(0, 16), known);
    if (distance > most || distance >= least ||
        distance >= static_cast<int>(known.size()) - 1)
      return;
    least = distance;
    nearest = command;
  };
  for (const auto& command : commands) look(command.name, command.name, 3);
  for (const auto& peer : peer_commands) look(peer.name, peer.command, 1);
  return nearest;
}

std::optional<int> run_without_ranks(int argc, char** argv) {
  std::vector<std::string> words = words_of(argc, argv);
  const Command* const command = find_command(words.front());
  if (command == nullptr || command->run != help) return {};
  words.erase(words.begin());
  std::string text;
  try {
    text = text_of_help(Arguments(std::move(words)));
  } catch (const Error&) {
    return {};
  }
  if (comm::launched_rank() != 0) return 0;
  try {
    log::line(text);
    output::require_whole();
  } catch (const Error& error) {
    log::error(format("trireme: error: {}", error.what()));
    return static_cast<int>(error.status());
  }
  return 0;
}

comm::Start start_of(int argc, char** argv) {
  return comm::is_launched() || computes(words_of(argc, argv)) ? comm::Start::ranks
                                                               : comm::Start::alone;
}

int run(comm::World& world, int argc, char** argv) {
  log::set_rank(world.rank());
  std::vector<std::string> words = words_of(argc, argv);
  const Command* const command = find_command(words.front());
  if (command == nullptr) refuse(words.front());
  words.erase(words.begin());
  command->saves_on_stop ? comm::save_on_stop() : comm::leave_on_stop();
  return with_output(world, command->run(world, Arguments(std::move(words))));
}

}  // namespace trireme::app
