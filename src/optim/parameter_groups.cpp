// Parameter groups.
// SPDX-License-Identifier: Apache-2.0
#include "optim/parameter_groups.hpp"

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "base/number.hpp"

namespace trireme::optim {
namespace {

double number(std::string_view text, const std::string& group) {
  const auto value = parse_number<double>(text);
  require(value && *value >= 0 && *value <= 1e6, Status::bad_content,
          "'{}' in \"{}\" is not a number from 0 to 1e6", text, group);
  return *value;
}

}  // namespace

ParameterGroup parse_group(const std::string& text) {
  std::istringstream words(text);
  ParameterGroup group;
  std::string word;
  words >> group.pattern;
  bool says_something = false;
  while (words >> word) {
    says_something = true;
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (word == "frozen") {
      group.frozen = true;
    } else if (key == "learning_rate" && equals != std::string::npos) {
      group.learning_rate = number(std::string_view(word).substr(equals + 1), text);
    } else if (key == "weight_decay" && equals != std::string::npos) {
      group.weight_decay = number(std::string_view(word).substr(equals + 1), text);
    } else {
      fail(Status::bad_content,
           "'{}' in \"{}\": a pattern is followed by frozen, learning_rate=X or "
           "weight_decay=X",
           word, text);
    }
  }
  require(says_something, Status::bad_content,
          "\"{}\" says nothing of its tensors: write a pattern and frozen, "
          "learning_rate=X or weight_decay=X",
          text);
  require(!group.frozen || (group.learning_rate < 0 && group.weight_decay < 0),
          Status::bad_content,
          "\"{}\": what is frozen has no learning_rate or weight_decay", text);
  return group;
}

// What is between two stars is where it first fits: no later place leaves more of the
// name to what follows.
bool matches(std::string_view pattern, std::string_view name) {
  const auto star = pattern.find('*'), last = pattern.rfind('*');
  if (star == std::string_view::npos) return pattern == name;
  const std::string_view end = pattern.substr(last + 1);
  if (name.size() < star + end.size() || !name.starts_with(pattern.substr(0, star)) ||
      !name.ends_with(end))
    return false;
  name = name.substr(star, name.size() - star - end.size());
  for (std::size_t at = star; at < last;) {
    const auto next = pattern.find('*', at + 1);
    const std::string_view part = pattern.substr(at + 1, next - at - 1);
    const auto found = name.find(part);
    if (found == std::string_view::npos) return false;
    name = name.substr(found + part.size());
    at = next;
  }
  return true;
}

void apply_groups(const OptimizerConfig& config, Param& param) {
  for (const ParameterGroup& group : config.groups) {
    const auto fitting = std::count_if(
        param.boxes.begin(), param.boxes.end(),
        [&](const NamedBox& named) { return matches(group.pattern, named.tensor); });
    if (fitting == 0) continue;
    if (fitting < static_cast<std::int64_t>(param.boxes.size())) {
      std::string names;
      for (const NamedBox& named : param.boxes) {
        if (names.find(named.tensor) == std::string::npos)
          names += (names.empty() ? "" : ", ") + named.tensor;
      }
      fail(Status::bad_content,
           "the pattern \"{}\" fits some of {} only, which are stored together: write "
           "one that fits all of them or none",
           group.pattern, names);
    }
    param.frozen = group.frozen;
    if (group.learning_rate >= 0) param.learning_rate = group.learning_rate;
    if (group.weight_decay >= 0) param.weight_decay = group.weight_decay;
  }
}

}  // namespace trireme::optim
