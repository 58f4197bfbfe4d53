// The loss of a pair of answers, and its derivative.
// SPDX-License-Identifier: Apache-2.0
#include "nn/preferences.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace trireme::nn {
namespace {

// log sigma(x) and sigma(x), where exp(-x) may overflow too.
double log_sigmoid(double x) {
  return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
}
double sigmoid(double x) { return std::exp(log_sigmoid(x)); }

}  // namespace

PairLoss pair_loss(const PreferenceLoss& rule, const AnswerScore& preferred,
                   const AnswerScore& other) {
  PairLoss pair;
  std::array<double, 2> scale{1.0, 1.0};  // of each reward in x
  const std::array<const AnswerScore*, 2> answers{&preferred, &other};
  for (std::size_t i = 0; i < 2; ++i) {
    if (rule.kind == PreferenceLoss::Kind::ipo)
      scale[i] = 1.0 / static_cast<double>(std::max<std::int64_t>(answers[i]->tokens, 1));
    pair.rewards[i] = rule.beta * (answers[i]->log_probability - answers[i]->reference);
  }
  const double x = scale[0] * pair.rewards[0] - scale[1] * pair.rewards[1];
  const double s = rule.label_smoothing;
  double dx = 0;  // of the loss by x
  switch (rule.kind) {
    case PreferenceLoss::Kind::sigmoid:
      pair.loss = -(1 - s) * log_sigmoid(x) - s * log_sigmoid(-x);
      dx = -(1 - s) * sigmoid(-x) + s * sigmoid(x);
      break;
    case PreferenceLoss::Kind::robust:
      pair.loss = (-(1 - s) * log_sigmoid(x) + s * log_sigmoid(-x)) / (1 - 2 * s);
      dx = (-(1 - s) * sigmoid(-x) - s * sigmoid(x)) / (1 - 2 * s);
      break;
    case PreferenceLoss::Kind::hinge:
      pair.loss = std::max(0.0, 1 - x);
      dx = x < 1 ? -1 : 0;
      break;
    case PreferenceLoss::Kind::ipo: {
      const double distance = (x - 0.5) / rule.beta;
      pair.loss = distance * distance;
      dx = 2 * distance / rule.beta;
      break;
    }
  }
  pair.gradient = {dx * rule.beta * scale[0], -dx * rule.beta * scale[1]};
  return pair;
}

void PreferenceSums::add(const PairLoss& pair, const AnswerScore& preferred_score,
                         const AnswerScore& other_score, double share) {
  values[preferred] += share * pair.rewards[0];
  values[other] += share * pair.rewards[1];
  values[right] += pair.rewards[0] > pair.rewards[1] ? share : 0;
  values[preferred_log] += share * preferred_score.log_probability;
  values[other_log] += share * other_score.log_probability;
}

std::int64_t most_answers(std::int64_t sequences, std::int64_t sequence) {
  require(sequences >= 1 && sequence >= 1, "{} sequences of {}", sequences, sequence);
  return sequences * 2 * std::max<std::int64_t>((sequence + 1) / 4, 1);
}

}  // namespace trireme::nn
