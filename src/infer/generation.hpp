// Generation: one text that is asked for, and what came of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/sampler.hpp"

namespace trireme::infer {

struct Generation {
  std::vector<std::int32_t> prompt;  // not empty
  std::int64_t max_new_tokens = 0;   // 1 or more
  SamplerConfig sampler{};
  std::vector<std::int32_t> end_tokens{};  // each ends the text, as its last token
  // Called after each new token with all new tokens so far; true: they end the text. A
  // pure function of them; may be empty.
  std::function<bool(std::span<const std::int32_t>)> is_stopped_by{};
  // -1: no log-probabilities; else those of each token, and of the so many likeliest.
  std::int64_t log_probabilities = -1;
};

// Log-probabilities are those of the model: before penalties and temperature.
struct TokenProbability {
  double chosen = 0;
  std::vector<std::pair<std::int32_t, double>> likeliest{};
};

// stop: by an end token or is_stopped_by; length: by max_new_tokens or the model's
// positions.
enum class FinishReason : std::uint8_t { stop, length };
inline std::string_view name_of(FinishReason reason) {
  return reason == FinishReason::stop ? "stop" : "length";
}

struct Generated {
  std::vector<std::int32_t> tokens{};  // the end token included
  std::vector<TokenProbability> probabilities{};
  FinishReason finish = FinishReason::length;
};

}  // namespace trireme::infer
