// The shape of a model: what a deck's [model] section says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme::model {

enum class Architecture : std::uint8_t { llama, gpt2 };

struct ModelConfig {
  Architecture architecture = Architecture::llama;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;        // D
  std::int64_t heads = 0;         // H
  std::int64_t kv_heads = 0;      // G; divides H
  std::int64_t feed_forward = 0;  // F
  std::int64_t vocabulary = 0;    // V
  std::int64_t sequence = 0;      // S; for gpt2 also the number of learned positions
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  double initializer_range = 0.02;  // standard deviation of the initial weights

  std::int64_t head_width() const { return hidden / heads; }
};

}  // namespace trireme::model
