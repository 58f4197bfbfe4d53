// Keys of the deck: dropout.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

struct DropoutKeys : Section {
  constexpr DropoutKeys() : Section("model.dropout") {}

  Real residual{
      *this,
      "residual",
      "",
      "0.0",
      within(0, 0.99),
      "Part of the numbers that training drops of what each half of a block adds "
      "to the residual stream: at random, but the same ones on every mesh.",
      sets<&RunConfig::model, &model::ModelConfig::residual,
           &model::ResidualSettings::dropout>};
  Real embedding{*this,
                 "embedding",
                 "",
                 "0.0",
                 within(0, 0.99),
                 "The same of the embedding with its positions.",
                 sets<&RunConfig::model, &model::ModelConfig::residual,
                      &model::ResidualSettings::embedding_dropout>};
  Real attention{*this,
                 "attention",
                 "",
                 "0.0",
                 within(0, 0.99),
                 "The same of attention's probabilities.",
                 sets<&RunConfig::model, &model::ModelConfig::attention,
                      &model::AttentionSettings::dropout>};
};

namespace key {
inline constexpr DropoutKeys dropout;
}  // namespace key

}  // namespace trireme::config
