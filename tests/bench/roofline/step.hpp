// Predicts the milliseconds of a training step on one GPU, from rates alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bench/roofline/tables.hpp"

namespace trireme::bench {

// The model of a deck, and a step's tokens. D hidden, F feed-forward, H heads, G
// key/value heads, K head width, V vocabulary, S sequence, B sequences.
struct StepModel {
  std::string deck;
  bool gated = false;  // SwiGLU, RMSNorm and RoPE; else GELU, LayerNorm and biases
  double layers = 0, D = 0, F = 0, H = 0, G = 0, V = 0, S = 0, B = 0;

  double K() const { return D / H; }
  double tokens() const { return B * S; }
  double block_parameters() const;
  double parameters()
      const;  // the embedding counted once where it is tied, and twice not
  bool tied = false;
};

// FLOP a second of attention's own kernels, by name and head width, from their bounds.
struct AttentionRates {
  double forward = 0;
  double queries = 0, keys = 0;  // backward in two passes
  double once = 0;               // in one, without the traffic of dq's partial sums
};

// A part of a step.
struct StepPart {
  std::string name;
  double seconds = 0;
};

// The models of decks.txt, read from the decks. Throws Error(missing_input) or
// Error(bad_content).
std::vector<StepModel> read_models(const std::filesystem::path& table,
                                   const std::filesystem::path& decks);

std::vector<StepPart> predict(const StepModel& model, const GpuRates& gpu,
                              const AttentionRates& attention);

}  // namespace trireme::bench
