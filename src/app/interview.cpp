// Interview: lines of standard input as answers.
// SPDX-License-Identifier: Apache-2.0
#include "app/interview.hpp"

#include <unistd.h>

#include <iostream>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/output.hpp"
#include "base/text.hpp"

namespace trireme::app {

void Interview::ask(std::string_view option, const std::string& question,
                    const std::string& fallback,
                    const std::function<void(const std::string&)>& take) {
  if (arguments_.has(option)) return take(arguments_.text(option, ""));
  if (yes_) return take(fallback);
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  std::string line;
  while (true) {
    output::write(format("{} [{}] ", question, fallback));
    require(static_cast<bool>(std::getline(std::cin, line)), Status::command_line,
            "standard input ended before this was answered: {} Answer it, give {}, or "
            "take all defaults by --yes",
            question, option);
    // What a script says is seen, as what somebody types is.
    if (!terminal) output::write(for_terminal(valid_utf8(line)) + "\n");
    const std::string answer = trimmed(line);
    try {
      return take(answer.empty() ? fallback : answer);
    } catch (const Error& error) {
      output::write(format("{}\n", for_terminal(error.what())));
    }
  }
}

std::int64_t Interview::ask_number(std::string_view option, const std::string& question,
                                   std::int64_t fallback, std::int64_t least,
                                   std::int64_t most) {
  std::int64_t number = fallback;
  ask(option, question, std::to_string(fallback), [&](const std::string& answer) {
    const auto read = parse_number<std::int64_t>(answer);
    require(read && *read >= least && *read <= most, Status::command_line,
            "{}: '{}' is no whole number from {} to {}", option, answer, least, most);
    number = *read;
  });
  return number;
}

}  // namespace trireme::app
