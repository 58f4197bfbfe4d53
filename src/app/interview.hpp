// Interview: questions on a plain terminal, which options or a script may answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "app/arguments.hpp"

namespace trireme::app {

class Interview {
 public:
  // yes: nothing is asked; what no option answers has its default.
  Interview(const Arguments& arguments, bool yes) : arguments_(arguments), yes_(yes) {}

  // take: uses an answer, or throws Error where it will not do. An option's answer is
  // final, what is typed is asked for again. Throws what `take` threw of an option or of
  // the default, and Error(command_line) where standard input ends before an answer.
  void ask(std::string_view option, const std::string& question,
           const std::string& fallback,
           const std::function<void(const std::string&)>& take);
  // A number within [least, most].
  std::int64_t ask_number(std::string_view option, const std::string& question,
                          std::int64_t fallback, std::int64_t least, std::int64_t most);

 private:
  const Arguments& arguments_;
  bool yes_;
};

}  // namespace trireme::app
