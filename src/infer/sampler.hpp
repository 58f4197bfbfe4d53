// Sampler: chooses the next token from logits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::infer {

struct SamplerConfig {
  double temperature = 1.0;  // 0: greedy
  std::int64_t top_k = 0;    // 0: all
  double top_p = 1.0;        // nucleus: the fewest tokens whose probability reaches it
  std::uint64_t seed = 0;
};

class Sampler {
 public:
  explicit Sampler(const SamplerConfig& config) : config_(config) {}

  // The token at `position`: greedy (the lowest id among equals), or drawn from softmax(
  // logits / temperature) cut to top_k and then top_p (Holtzman et al., 2020). A pure
  // function of the logits, the seed and the position.
  std::int32_t choose(std::span<const double> logits, std::int64_t position) const;

 private:
  SamplerConfig config_;
};

}  // namespace trireme::infer
