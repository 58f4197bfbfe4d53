// Preferences: the loss of pairs of answers, of which one is preferred (DPO).
// SPDX-License-Identifier: Apache-2.0
// Legend: T tokens of a microbatch on this rank, G places for answers in it. The answers
// of pair p have the numbers 2p, the one that is preferred, and 2p + 1.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/tensor_view.hpp"
#include "parallel/sequence_sum.hpp"

namespace trireme::nn {

struct PreferenceLoss {
  enum class Kind : std::uint8_t { sigmoid, robust, hinge, ipo };
  Kind kind = Kind::sigmoid;
  double beta = 0.1;  // how dear it is to leave the reference model
  // Of sigmoid and robust: how probable it is that a pair stands the wrong way round.
  double label_smoothing = 0;
};

// What a model and the reference make of an answer: sums over its learned tokens.
struct AnswerScore {
  double log_probability = 0, reference = 0;
  std::int64_t tokens = 0;
};

struct PairLoss {
  double loss = 0;
  // Its derivative by each log_probability.
  std::array<double, 2> gradient{};
  // beta (log_probability - reference).
  std::array<double, 2> rewards{};
};

// With x = rewards[0] - rewards[1], s = label_smoothing:
//   sigmoid  -(1 - s) log sigma(x) - s log sigma(-x)    (Rafailov et al., 2023, eq. 7;
//            smoothed: Mitchell, 2023)
//   robust   (-(1 - s) log sigma(x) + s log sigma(-x)) / (1 - 2 s)    (Chowdhury et al.,
//            2024): unbiased where a share s of the pairs stands the wrong way round
//   hinge    max(0, 1 - x)                              (Zhao et al., 2023)
//   ipo      (x / beta - 1 / (2 beta))^2                (Azar et al., 2023, eq. 17), each
//            reward divided by the answer's tokens
// The numbers are those of TRL's DPOTrainer (whose sigmoid has s = 0).
PairLoss pair_loss(const PreferenceLoss& rule, const AnswerScore& preferred,
                   const AnswerScore& other);

// Sums over pairs; the members of the array are for adding up over ranks.
struct PreferenceSums {
  enum Member : std::uint8_t { preferred, other, right, preferred_log, other_log };
  // Rewards of either answer, pairs whose preferred answer has the larger one, and
  // log-probabilities of either.
  std::array<double, 5> values{};

  void add(const PairLoss& pair, const AnswerScore& preferred, const AnswerScore& other,
           double share);
};

// The answers in a microbatch, on the host, and the same on ranks that share sequences
// but for `numbers_T`.
struct Answers {
  TensorView numbers_T{};      // i32: of the answer that each target is of; below 0: none
  TensorView references_G2{};  // f64: log-probability by the reference model, and how
                               // many targets the answer has; 0: there is none
  bool empty() const { return numbers_T.empty(); }
};

// What a head needs to know to learn from pairs, and what it tells. Outlived by all that
// it points to.
struct Preferences {
  Answers answers{};
  PreferenceLoss rule{};
  parallel::SequenceSum sequence_sum{};
  PreferenceSums* sums = nullptr;  // in training: added to
  // Of an evaluation: log-probability of each of the G answers (written).
  std::vector<double>* log_probabilities = nullptr;
};

// For as many sequences of S + 1 tokens: the most answers that they can hold, each of two
// tokens at least, but one pair a sequence in any case.
std::int64_t most_answers(std::int64_t sequences, std::int64_t sequence);

}  // namespace trireme::nn
