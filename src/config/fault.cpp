// The written form of injected faults.
// SPDX-License-Identifier: Apache-2.0
#include "config/fault.hpp"

#include "base/number.hpp"

namespace trireme::config {

std::optional<Fault> parse_fault(std::string_view text) {
  const auto first = text.find('@'), second = text.rfind('@');
  if (first == second) return std::nullopt;
  // "start": while the run starts, as step 0.
  const std::string_view when = text.substr(first + 1, second - first - 1);
  const std::optional<std::int64_t> step =
      when == "start" ? 0 : parse_number<std::int64_t>(when);
  const auto rank = parse_number<std::int64_t>(text.substr(second + 1));
  if (!step || !rank || *step < (when == "start" ? 0 : 1) || *rank < 0)
    return std::nullopt;
  for (const auto& [word, kind] : fault_words)
    if (word == text.substr(0, first)) return Fault{kind, *step, *rank};
  return std::nullopt;
}

std::string_view name_of(FaultKind kind) {
  for (const FaultWord& entry : fault_words)
    if (entry.kind == kind) return entry.word;
  return "";
}

std::string fault_kinds_text() {
  std::string text;
  for (std::size_t i = 0; i < fault_words.size(); ++i) {
    const bool last = i + 1 == fault_words.size();
    text += i == 0 ? "" : last ? " or " : ", ";
    text += fault_words[i].word;
  }
  return text;
}

}  // namespace trireme::config
