// Arguments: the words of a command line, sorted into options and the rest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::app {

// An option that a command knows: "--name VALUE" (or "--name=VALUE"), or a flag without
// one.
struct Option {
  std::string_view name;  // with the dashes
  bool takes_value = true;
  bool repeats = false;  // may be given more than once
};

// How a command is used, a way a line, for below an error: in lines that a terminal shows
// whole.
std::string usage_below(std::string_view usage);

class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {}

  // Sorts the words by what the command knows; words behind "--" are no options. Throws
  // Error(command_line) for an unknown option, one that is given twice, a missing or
  // empty value, an empty word, or a count of other words outside [least, most].
  void parse(std::string_view usage, std::span<const Option> options, std::size_t least,
             std::size_t most);

  // Words that are not options, in order.
  const std::vector<std::string>& words() const { return words_; }
  bool has(std::string_view option) const { return values_.contains(option); }
  std::string text(std::string_view option, std::string_view fallback) const;
  // Every value of an option that may be given more than once, in order.
  std::vector<std::string> texts(std::string_view option) const;
  // Throw Error(command_line) when the value is no number or outside [least, most].
  std::int64_t integer(std::string_view option, std::int64_t fallback, std::int64_t least,
                       std::int64_t most) const;
  double real(std::string_view option, double fallback, double least, double most) const;

 private:
  void read_option(std::string_view usage, std::span<const Option> options,
                   std::size_t& at);

  std::vector<std::string> words_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

}  // namespace trireme::app
