// Arguments.
// SPDX-License-Identifier: Apache-2.0
#include "app/arguments.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"

namespace trireme::app {
namespace {

template <class T>
T number(std::string_view option, const std::string& text, T least, T most) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  require(
      result.ec == std::errc() && result.ptr == end && value >= least && value <= most,
      Status::command_line, "{} {}: a number from {} to {} is expected", option, text,
      least, most);
  return value;
}

}  // namespace

void Arguments::parse(std::string_view usage, std::span<const Option> options,
                      std::size_t least, std::size_t most) {
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::string& word = words_[i];
    if (!word.starts_with("--")) {
      rest.push_back(word);
      continue;
    }
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto known = std::find_if(options.begin(), options.end(),
                                    [&](const Option& o) { return o.name == name; });
    require(known != options.end(), Status::command_line, "unknown option {}\nusage: {}",
            name, usage);
    if (!known->takes_value) {
      require(equals == std::string::npos, Status::command_line, "{} takes no value",
              name);
      values_[name].emplace_back();
    } else if (equals != std::string::npos) {
      values_[name].push_back(word.substr(equals + 1));
    } else {
      require(i + 1 < words_.size(), Status::command_line, "{} needs a value\nusage: {}",
              name, usage);
      values_[name].push_back(words_[++i]);
    }
  }
  require(rest.size() >= least && rest.size() <= most, Status::command_line,
          "{} words given\nusage: {}", rest.size(), usage);
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
