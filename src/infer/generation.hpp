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
  std::int64_t most = 0;             // tokens to add, 1 or more
  SamplerConfig sampler{};
  std::vector<std::int32_t> end_tokens{};  // each ends the text, as its last token
  // Whether the text ends with the last of its new tokens; a pure function of them,
  // called once for each new token, in order. May be empty.
  std::function<bool(std::span<const std::int32_t>)> ends{};
  // -1: no log-probabilities; else those of each token, and of the so many likeliest.
  std::int64_t log_probabilities = -1;
};

// Log-probabilities are those of the model: before penalties and temperature.
struct TokenProbability {
  double chosen = 0;
  std::vector<std::pair<std::int32_t, double>> likeliest{};
};

struct Generated {
  std::vector<std::int32_t> tokens{};  // the end token included
  std::vector<TokenProbability> probabilities{};
  std::string_view finish;  // "stop" or "length"
};

}  // namespace trireme::infer
