// The command line: `trireme COMMAND ...`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "app/arguments.hpp"
#include "comm/world.hpp"

namespace trireme::app {

// Runs the command of argv and returns the exit status.
int run(comm::World& world, int argc, char** argv);

// The exit status of `trireme help`, which the first process of a launch has said: to
// start MPI would take a hundred times as long. Nothing for other commands, and for help
// that does not exist, which run() refuses.
std::optional<int> run_without_ranks(int argc, char** argv);

// Commands that one process carries out start without MPI where no launcher started them:
// login nodes may not let it start.
comm::Start start_of(int argc, char** argv);

// One function a command, each in a file of its own.
int train(comm::World& world, const Arguments& arguments);
int plan(comm::World& world, const Arguments& arguments);
int init(comm::World& world, const Arguments& arguments);
int generate(comm::World& world, const Arguments& arguments);
int chat(comm::World& world, const Arguments& arguments);
int evaluate(comm::World& world, const Arguments& arguments);
int inspect(comm::World& world, const Arguments& arguments);
int convert(comm::World& world, const Arguments& arguments);
int bench(comm::World& world, const Arguments& arguments);
int encode(comm::World& world, const Arguments& arguments);
int decode(comm::World& world, const Arguments& arguments);
int tokenize(comm::World& world, const Arguments& arguments);
int sweep(comm::World& world, const Arguments& arguments);
int selftest(comm::World& world, const Arguments& arguments);
int report(comm::World& world, const Arguments& arguments);
int help(comm::World& world, const Arguments& arguments);
int version(comm::World& world, const Arguments& arguments);

// The command whose name a word resembles most; empty where none does.
std::string nearest_command(const std::string& name);

// What `trireme help` with these words says. Throws Error(command_line).
std::string text_of_help(Arguments arguments);

// Commands and their options: the text of `trireme help`, from which the completion and
// the man page are made (help_text.hpp).
std::string_view overview();

}  // namespace trireme::app
