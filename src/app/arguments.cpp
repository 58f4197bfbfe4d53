// Arguments: words and options of a command line, with errors that show its usage.
// SPDX-License-Identifier: Apache-2.0
#include "app/arguments.hpp"

#include <algorithm>
#include <type_traits>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "io/deck.hpp"

namespace trireme::app {
namespace {

template <class T>
T number(std::string_view option, const std::string& text, T least, T most) {
  const auto value = parse_number<T>(text);
  require(value && *value >= least && *value <= most, Status::command_line,
          "{} '{}': a {} from {} to {} is expected", option, text,
          std::is_integral_v<T> ? "whole number" : "number", least, most);
  return *value;
}

std::string nearest(const std::string& name, std::span<const Option> options) {
  std::string_view best;
  int least = 4;
  for (const Option& option : options) {
    const int distance = io::edit_distance(name.substr(0, 24), option.name);
    if (distance >= std::min<int>(least, static_cast<int>(option.name.size()) - 2))
      continue;
    least = distance;
    best = option.name;
  }
  return best.empty() ? "" : format("; did you mean {}?", best);
}

}  // namespace

std::string usage_below(std::string_view usage) {
  constexpr std::string_view begin = "usage: ";
  std::string text;
  for (std::size_t at = 0; at < usage.size();) {
    const std::size_t end = std::min(usage.find('\n', at), usage.size());
    std::string_view way = usage.substr(at, end - at);
    way.remove_prefix(std::min(way.find_first_not_of(' '), way.size()));
    std::string lines = wrapped(format("{}{}", begin, way), 100, begin.size());
    if (at > 0) lines.replace(0, begin.size(), begin.size(), ' ');
    text += '\n' + lines;
    at = end + 1;
  }
  return text;
}

// The option at words_[at], which moves to its last word.
void Arguments::read_option(std::string_view usage, std::span<const Option> options,
                            std::size_t& at) {
  const std::string word = words_[at];
  const auto equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const auto known = std::find_if(options.begin(), options.end(),
                                  [&](const Option& o) { return o.name == name; });
  require(known != options.end(), Status::command_line, "unknown option {}{}{}", name,
          nearest(name, options), usage_below(usage));
  require(known->repeats || !values_.contains(name), Status::command_line,
          "{} is given twice{}", name, usage_below(usage));
  if (!known->takes_value) {
    require(equals == std::string::npos, Status::command_line, "{} takes no value", name);
    values_[name].emplace_back();
    return;
  }
  if (equals != std::string::npos) {
    values_[name].push_back(word.substr(equals + 1));
  } else {
    require(at + 1 < words_.size(), Status::command_line, "{} needs a value{}", name,
            usage_below(usage));
    const std::string& value = words_[++at];
    require(!value.starts_with("--"), Status::command_line,
            "{} needs a value; if '{}' is meant as one, write {}={}{}", name, value, name,
            value, usage_below(usage));
    values_[name].push_back(value);
  }
  require(!values_[name].back().empty(), Status::command_line,
          "{} '': the value is empty{}", name, usage_below(usage));
}

void Arguments::parse(std::string_view usage, std::span<const Option> options,
                      std::size_t least, std::size_t most) {
  std::vector<std::string> rest;
  bool options_end = false;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::string& word = words_[i];
    if (!options_end && word == "--") {
      options_end = true;
    } else if (!options_end && word.size() > 1 && word.front() == '-') {
      read_option(usage, options, i);
    } else {
      require(!word.empty(), Status::command_line,
              "a word is empty: a variable of the shell that is not set?{}",
              usage_below(usage));
      rest.push_back(word);
    }
  }
  require(rest.size() >= least, Status::command_line, "{}{}",
          rest.empty() ? std::string("an argument is missing")
                       : format("an argument is missing after '{}'", rest.back()),
          usage_below(usage));
  require(rest.size() <= most, Status::command_line, "unexpected argument '{}'{}",
          rest.size() > most ? rest[most] : "", usage_below(usage));
  words_ = std::move(rest);
}

std::string Arguments::text(std::string_view option, std::string_view fallback) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::string(fallback) : found->second.back();
}

std::vector<std::string> Arguments::texts(std::string_view option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::int64_t Arguments::integer(std::string_view option, std::int64_t fallback,
                                std::int64_t least, std::int64_t most) const {
  const auto found = values_.find(option);
  return found == values_.end() ? fallback
                                : number(option, found->second.back(), least, most);
}

double Arguments::real(std::string_view option, double fallback, double least,
                       double most) const {
  const auto found = values_.find(option);
  return found == values_.end() ? fallback
                                : number(option, found->second.back(), least, most);
}

}  // namespace trireme::app
