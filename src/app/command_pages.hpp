// A page of help for each command: its words, what each option does, an example.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace trireme::app {

struct CommandPage {
  std::string_view command;
  std::string_view text;  // at most 100 columns wide
};

// One for each command of the overview but help, in its order.
std::span<const CommandPage> command_pages();

// The page of a command; null where there is none of that name.
const CommandPage* page_of(std::string_view command);

}  // namespace trireme::app
