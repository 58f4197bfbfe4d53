// Keys of the deck: what a run learns from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

struct TrainKeys : Section {
  constexpr TrainKeys() : Section("train") {}

  Choice<Objective> objective{
      *this,
      "objective",
      "\"next_token\"",
      {{"next_token", Objective::next_token}, {"dpo", Objective::dpo}},
      "next_token: cross-entropy of the targets; dpo: which of two answers is preferred, "
      "beside the model as it was at the start (data.source = \"preference\").",
      sets<&RunConfig::train, &TrainSettings::objective>};
};

struct DpoKeys : Section {
  constexpr DpoKeys() : Section("train.dpo") {}

  Choice<nn::PreferenceLoss::Kind> loss{
      *this,
      "loss",
      "\"sigmoid\"",
      {{"sigmoid", nn::PreferenceLoss::Kind::sigmoid},
       {"robust", nn::PreferenceLoss::Kind::robust},
       {"hinge", nn::PreferenceLoss::Kind::hinge},
       {"ipo", nn::PreferenceLoss::Kind::ipo}},
      "Loss of a pair: sigmoid as in the paper of DPO; robust: the same without bias "
      "where label_smoothing of the pairs stand the wrong way round; hinge: as in SLiC; "
      "ipo: the squared distance of means over tokens from a margin.",
      sets<&RunConfig::train, &TrainSettings::pairs, &nn::PreferenceLoss::kind>};
  Real beta{*this,
            "beta",
            "",
            "0.1",
            above(0, 1e6),
            "How strongly the model is held to what it was at the start: larger, closer.",
            sets<&RunConfig::train, &TrainSettings::pairs, &nn::PreferenceLoss::beta>};
  Real label_smoothing{
      *this,
      "label_smoothing",
      "",
      "0.0",
      below(0, 0.5),
      "Of sigmoid and robust: the share of pairs that are taken to stand the wrong way "
      "round.",
      sets<&RunConfig::train, &TrainSettings::pairs,
           &nn::PreferenceLoss::label_smoothing>};
};

namespace key {
inline constexpr TrainKeys train;
inline constexpr DpoKeys dpo;
}  // namespace key

}  // namespace trireme::config
