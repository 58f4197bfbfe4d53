// Sampler: chooses the next token from logits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trireme::infer {

// Why logits, or losses made of them, are NaN or infinite.
inline constexpr std::string_view why_not_finite =
    "a weight, a scale of its codes or an adapter is NaN or infinite, or the model's "
    "numbers exceed the type that it computes in, which is that of its weights: 'trireme "
    "convert MODEL NEW --dtype fp32' makes a copy of a wider type";

struct SamplerConfig {
  double temperature = 1.0;  // 0: greedy
  std::int64_t top_k = 0;    // 0: all
  double top_p = 1.0;        // nucleus: the fewest tokens whose probability reaches it
  std::uint64_t seed = 0;
  std::int64_t sample = 0;          // of several of one prompt, which
  double repetition_penalty = 1.0;  // of tokens that the text has
  double min_p = 0;      // at least so much of the likeliest token's probability
  double typical_p = 1;  // the tokens nearest to the entropy that together reach it
};

class Sampler {
 public:
  explicit Sampler(const SamplerConfig& config) : config_(config) {}

  // The token at `position`: greedy (the lowest id among equals), or drawn from softmax(
  // logits / temperature) cut by top_k, top_p, min_p and typical_p, in this order, as
  // transformers does it; those that are as likely as the last that top_k keeps stay.
  // Before all that, logits of tokens in `text` are divided by the repetition penalty,
  // or multiplied where they are negative. A pure function of the arguments, the seed
  // and the sample.
  // Source: Holtzman et al., 2020 (top_p); Keskar et al., 2019 (repetition); Nguyen et
  // al., 2024 (min_p); Meister et al., 2023 (typical_p).
  std::int32_t choose(std::span<const double> logits, std::int64_t position,
                      std::span<const std::int32_t> text = {}) const;

 private:
  SamplerConfig config_;
};

// The natural logarithm of softmax(logits) is logits minus this.
double log_of_sum(std::span<const double> logits);

// The `count` likeliest tokens, likeliest first, the lower id first among equals.
std::vector<std::int32_t> likeliest(std::span<const double> logits, std::int64_t count);

}  // namespace trireme::infer
