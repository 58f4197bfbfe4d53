// AdapterConfig: which modules targets and patterns fit.
// SPDX-License-Identifier: Apache-2.0
#include "nn/adapter_config.hpp"

#include <algorithm>
#include <cmath>
#include <regex>

#include "base/error.hpp"

namespace trireme::nn {
namespace {

constexpr std::string_view regex_mark = "re:";

// Letters behind a backslash that mean something to ECMAScript, which takes others, such
// as Python's \\A and \\Z, for themselves.
std::string escape_mistake(const std::string& expression) {
  constexpr std::string_view letters = "bBdDwWsSnrtfvcxu";
  for (std::size_t i = 0; i + 1 < expression.size(); ++i) {
    if (expression[i] != '\\') continue;
    const char next = expression[++i];
    const bool letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
    if (letter && letters.find(next) == letters.npos)
      return format("\\{} means nothing in it", next);
  }
  return {};
}

// written: what the user wrote of the expression.
bool fits_whole(const std::string& expression, const std::string& module,
                const std::string& written) {
  const auto refuse = [&](const std::string& why) {
    fail(Status::bad_content,
         "'{}' is no regular expression that this program reads ({}): write one of "
         "ECMAScript's",
         written, why);
  };
  if (const std::string mistake = escape_mistake(written); !mistake.empty())
    refuse(mistake);
  try {
    return std::regex_match(module, std::regex(expression, std::regex::ECMAScript));
  } catch (const std::regex_error& error) {
    refuse(error.what());
  }
  return false;
}

// A pattern fits the last parts of a name.
std::string whole_expression(const std::string& pattern) {
  return "^(.*\\.)?(" + pattern + ")$";
}

template <class T>
T value_for(const std::vector<ModulePattern<T>>& patterns, const std::string& module,
            T otherwise) {
  for (const ModulePattern<T>& each : patterns)
    if (fits_pattern(each.pattern, module)) return each.value;
  return otherwise;
}

}  // namespace

bool ends_with_module(std::string_view module, std::string_view name) {
  if (!module.ends_with(name) || name.empty()) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

bool fits_target(const std::string& target, const std::string& module) {
  if (target == all_linear) return true;
  if (!target.starts_with(regex_mark)) return ends_with_module(module, target);
  const std::string expression = target.substr(regex_mark.size());
  return fits_whole(expression, module, expression);
}

bool fits_pattern(const std::string& pattern, const std::string& module) {
  return fits_whole(whole_expression(pattern), module, pattern);
}

std::string pattern_mistake(const std::string& pattern) {
  if (std::string mistake = escape_mistake(pattern); !mistake.empty()) return mistake;
  try {
    const std::regex read(whole_expression(pattern), std::regex::ECMAScript);
    return {};
  } catch (const std::regex_error& error) {
    return error.what();
  }
}

std::optional<AdapterModule> AdapterConfig::of(const std::string& module) const {
  const bool targeted =
      exists() && std::any_of(targets.begin(), targets.end(), [&](const auto& target) {
        return fits_target(target, module);
      });
  if (!targeted || saves(module)) return {};
  const std::int64_t r = value_for(ranks, module, rank);
  const double a = value_for(alphas, module, alpha);
  const auto real = static_cast<double>(r);
  return AdapterModule{r, by_root ? a / std::sqrt(real) : a / real};
}

bool AdapterConfig::saves(const std::string& module) const {
  return std::any_of(
      modules_to_save.begin(), modules_to_save.end(),
      [&](const std::string& name) { return ends_with_module(module, name); });
}

std::string module_of_tensor(const std::string& tensor) {
  for (const std::string_view end : {".weight", ".bias"})
    if (tensor.ends_with(end)) return tensor.substr(0, tensor.size() - end.size());
  return tensor;
}

bool is_adapter_tensor(std::string_view tensor) {
  return tensor.ends_with(down_suffix) || tensor.ends_with(up_suffix) ||
         tensor.ends_with(magnitude_suffix);
}

}  // namespace trireme::nn
