// Rules about the deck's debug section.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "config/rules.hpp"

namespace trireme::config {

void Rules::debug_rules() {
  const auto steps_rule = [&](const io::DeckKey& key,
                              const std::vector<std::int64_t>& steps) {
    rule(
        {key, key::run.steps},
        [&] {
          return std::all_of(steps.begin(), steps.end(),
                             [&](auto step) { return step <= config_.run.steps; });
        },
        key, " names a step after ", key::run.steps, ", the last: remove it");
  };
  steps_rule(key::debug.dump_gradients, config_.debug.dump_gradients);
  steps_rule(key::debug.dump_samples, config_.debug.dump_samples);
  if (!config_.debug.fault.empty()) fault_rule();
}

void Rules::fault_rule() {
  // 1. kind@step@rank
  const std::string& fault = config_.debug.fault;
  const auto first = fault.find('@'), second = fault.rfind('@');
  std::int64_t step = -1, rank = -1;
  const auto number = [&](std::size_t begin, std::size_t end, std::int64_t& out) {
    const auto parsed = std::from_chars(fault.data() + begin, fault.data() + end, out);
    return parsed.ec == std::errc{} && parsed.ptr == fault.data() + end;
  };
  const bool well_formed =
      first != second && second != std::string::npos &&
      among(
          "exit|throw|kill|hang|stop|slow_copy|nan|nan_loss|nan_gradient|spike|"
          "flip_sign|flip_exponent|flip_mantissa|flip_moment",
          fault.substr(0, first)) &&
      number(first + 1, second, step) && number(second + 1, fault.size(), rank) &&
      step >= 1 && rank >= 0;
  rule({key::debug.fault}, well_formed, key::debug.fault,
       " must be kind@step@rank with kind exit, throw, kill, hang, stop, "
       "slow_copy, nan, "
       "nan_loss, nan_gradient, spike, flip_sign, flip_exponent, flip_mantissa "
       "or "
       "flip_moment: write "
       "\"kill@3@0\" to kill rank 0 in step 3");
  if (!well_formed) return;
  // 2. A step and a rank that exist.
  rule({key::debug.fault, key::run.steps}, step <= config_.run.steps, key::debug.fault,
       " names a step after ", key::run.steps, ", the last: write an earlier step");
  rule({key::debug.fault, key::optimizer.name, key::optimizer.betas},
       !fault.starts_with("flip_moment") || config_.optimizer.has_momentum(),
       key::debug.fault, " changes a moment, but ", key::optimizer.name, " with ",
       key::optimizer.betas, " keeps none: write debug.fault = \"flip_mantissa@",
       std::to_string(step), "@", std::to_string(rank), "\"");
  ranks_rule({key::debug.fault}, rank < ranks_, key::debug.fault, [&] {
    return format(" names rank {}, but the number of ranks is {}: write a rank below {}",
                  rank, ranks_, ranks_);
  });
}

}  // namespace trireme::config
