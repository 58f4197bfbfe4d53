// Ramps of the batch as stages of steps.
// SPDX-License-Identifier: Apache-2.0
#include "config/batch_ramp.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/split.hpp"

namespace trireme::config {
namespace {

constexpr std::string_view words = " until ";

// "2B" as 2e9; 0 for what is no number of tokens.
std::int64_t parse_tokens(std::string_view text) {
  double factor = 1;
  for (const auto& [suffix, power] : {std::pair('k', 1e3), std::pair('M', 1e6),
                                      std::pair('B', 1e9), std::pair('T', 1e12)})
    if (text.ends_with(suffix)) factor = power;
  if (factor > 1) text.remove_suffix(1);
  const auto number = parse_number<double>(text);
  const double tokens = number ? *number * factor : 0;
  if (!(tokens >= 1) || tokens > 0x1p62 || tokens != std::floor(tokens)) return 0;
  return static_cast<std::int64_t>(tokens);
}

// The value when `tokens` are trained on, and until when it holds.
RampPart part_at(const std::vector<RampPart>& ramp, std::int64_t last,
                 std::int64_t tokens) {
  for (const RampPart& part : ramp)
    if (tokens < part.until_tokens) return part;
  return {last, INT64_MAX};
}

}  // namespace

RampPart parse_ramp_part(std::string_view text) {
  const std::size_t at = std::min(text.find(words), text.size());
  const auto value = parse_number<std::int64_t>(text.substr(0, at));
  const std::int64_t tokens =
      at < text.size() ? parse_tokens(text.substr(at + words.size())) : 0;
  require(value && *value >= 1 && *value <= 1'000'000'000 && tokens > 0,
          Status::bad_content,
          "\"{}\" is no part of a ramp: write a number and the tokens until which it "
          "holds, as \"64 until 2B\"",
          std::string(text));
  return {*value, tokens};
}

std::vector<BatchStage> batch_stages(std::int64_t global, std::int64_t sequence,
                                     const std::vector<RampPart>& ramp,
                                     const std::vector<RampPart>& sequence_ramp) {
  std::vector<BatchStage> stages;
  BatchStage stage;
  for (;;) {
    const RampPart size = part_at(ramp, global, stage.tokens_before);
    const RampPart cut = part_at(sequence_ramp, sequence, stage.tokens_before);
    stage.global = size.value;
    stage.sequence = cut.value;
    stages.push_back(stage);
    const std::int64_t until = std::min(size.until_tokens, cut.until_tokens);
    if (until == INT64_MAX) return stages;
    const std::int64_t tokens = stage.global * sequence;
    const std::int64_t steps = divide_up(until - stage.tokens_before, tokens);
    stage.first_step += steps;
    stage.first_sequence += steps * stage.global;
    stage.tokens_before += steps * tokens;
  }
}

const BatchStage& stage_at(const std::vector<BatchStage>& stages, std::int64_t step) {
  require(!stages.empty() && step >= stages.front().first_step, "no stage has step {}",
          step);
  return *(std::upper_bound(stages.begin(), stages.end(), step,
                            [](std::int64_t s, const BatchStage& stage) {
                              return s < stage.first_step;
                            }) -
           1);
}

}  // namespace trireme::config
