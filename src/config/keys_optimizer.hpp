// Keys of the deck: the optimizer and its learning rate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

// A setting of the learning rate's schedule.
template <auto member>
inline constexpr auto of_schedule =
    sets<&RunConfig::optimizer, &optim::OptimizerConfig::schedule, member>;

struct OptimizerKeys : Section {
  constexpr OptimizerKeys() : Section("optimizer") {}

  String name{
      *this,
      "name",
      "\"adamw\"",
      optim::update_rule_names,
      "adamw; sgd with betas[0] as momentum; lion, for which its authors use betas of "
      "[0.9, 0.99], a third to a tenth of AdamW's learning_rate and as much more "
      "weight_decay; muon for matrices, with adamw for embeddings, head, norms and "
      "biases.",
      sets<&RunConfig::optimizer, &optim::OptimizerConfig::name>};
  Real learning_rate{*this,
                     "learning_rate",
                     "",
                     "0.0003",
                     within(0, 1e6),
                     "Peak learning rate, but for what optimizer.groups says.",
                     sets<&RunConfig::optimizer, &optim::OptimizerConfig::learning_rate>};
  Reals betas{*this,
              "betas",
              "",
              "[0.9, 0.95]",
              below(0, 1),
              "Decay of the first and second moment; sgd uses the first as momentum and "
              "not the second; lion, of the average that is followed and of that which "
              "is kept."};
  Real eps{
      *this,
      "eps",
      "",
      "1e-08",
      within(1e-37, 1),
      "Added to the root of the second moment; unused by sgd and lion. What is smaller "
      "would be 0 in fp32.",
      sets<&RunConfig::optimizer, &optim::OptimizerConfig::eps>};
  Real weight_decay{
      *this,
      "weight_decay",
      "",
      "0.1",
      within(0, 1e6),
      "Decoupled weight decay; not applied to norms and biases unless a group says "
      "so.",
      sets<&RunConfig::optimizer, &optim::OptimizerConfig::weight_decay>};
  Real clip{*this,
            "clip",
            "",
            "1.0",
            within(0, 1e30),
            "Largest global norm of the gradient; 0: no clipping.",
            sets<&RunConfig::optimizer, &optim::OptimizerConfig::clip>};
  Strings groups{
      *this, "groups", "[]",
      "Tensors trained in their own way, each as \"PATTERN frozen\" or \"PATTERN "
      "learning_rate=X weight_decay=X\"; * stands for anything. The rate is a peak "
      "of its own, also beside a learning_rate of 0, on the course of "
      "optimizer.schedule; the decay holds for norms and biases too. Of several "
      "that fit, the last that gives a value wins, and trains what an earlier one "
      "froze."};
};

struct ScheduleKeys : Section {
  constexpr ScheduleKeys() : Section("optimizer.schedule") {}

  Choice<optim::DecayStyle> name{
      *this,
      "name",
      "\"constant\"",
      {{"constant", optim::DecayStyle::constant},
       {"linear", optim::DecayStyle::linear},
       {"cosine", optim::DecayStyle::cosine},
       {"wsd", optim::DecayStyle::wsd}},
      "Course of the learning rate after warm-up; wsd: constant, then a linear "
      "decay.",
      of_schedule<&optim::ScheduleConfig::kind>};
  Choice<ScheduleUnit> unit{
      *this,
      "unit",
      "\"steps\"",
      {{"steps", ScheduleUnit::steps}, {"tokens", ScheduleUnit::tokens}},
      "What warmup and decay count: steps, or tokens of whole sequences, as batch.ramp "
      "does; updates that fp16 skips count as none."};
  Integer warmup{*this,
                 "warmup",
                 "steps or tokens",
                 "0",
                 within(0, 9e15),
                 "Linear warm-up from 0.",
                 of_schedule<&optim::ScheduleConfig::warmup>};
  Integer decay{
      *this,
      "decay",
      "steps or tokens",
      "0",
      within(0, 9e15),
      "Length of the decay; 0 for linear and cosine: to the last step; wsd needs "
      "it; constant has none.",
      of_schedule<&optim::ScheduleConfig::decay>};
  Real final_fraction{
      *this,
      "final_fraction",
      "",
      "0.1",
      within(0, 1),
      "Learning rate at the end, as a fraction of the peak; unused by constant.",
      of_schedule<&optim::ScheduleConfig::final_fraction>};
};

// A setting of Muon.
template <auto member>
inline constexpr auto of_muon =
    sets<&RunConfig::optimizer, &optim::OptimizerConfig::muon, member>;

struct MuonKeys : Section {
  constexpr MuonKeys() : Section("optimizer.muon") {}

  Real momentum{*this,
                "momentum",
                "",
                "0.95",
                below(0, 1),
                "Decay of the mean of gradients that a matrix follows.",
                of_muon<&optim::MuonConfig::momentum>};
  Boolean nesterov{
      *this, "nesterov", "true",
      "The direction is the gradient drawn towards that mean, instead of the mean.",
      of_muon<&optim::MuonConfig::nesterov>};
  Integer newton_schulz_steps{
      *this,
      "newton_schulz_steps",
      "steps",
      "5",
      within(1, 100),
      "Steps that make the direction's singular values nearly equal.",
      of_muon<&optim::MuonConfig::steps>};
  Choice<bool> adjust_rate{
      *this,
      "adjust_rate",
      "\"match_rms_adamw\"",
      {{"original", false}, {"match_rms_adamw", true}},
      "What the learning rate of a matrix is multiplied with. match_rms_adamw: 0.2 "
      "sqrt(max(rows, columns)), so that AdamW's learning rate and weight decay fit; "
      "original: sqrt(max(1, rows / columns)).",
      of_muon<&optim::MuonConfig::match_adamw>};
};

// A setting of the step that copies of the model take together.
template <auto member>
inline constexpr auto of_outer =
    sets<&RunConfig::optimizer, &optim::OptimizerConfig::outer, member>;

struct OuterKeys : Section {
  constexpr OuterKeys() : Section("optimizer.outer") {}

  Integer every{
      *this,
      "every",
      "steps",
      "0",
      within(0, most_steps),
      "Steps that each copy of the model (a data rank with NO_SHARD, a group with "
      "HYBRID_SHARD) takes by itself before the copies are averaged, as in LocalSGD and "
      "DiLoCo; 0: their gradients are summed in every step.",
      of_outer<&optim::OuterConfig::every>};
  Real learning_rate{
      *this,
      "learning_rate",
      "",
      "1.0",
      above(0, 1e6),
      "How far the model goes the way to the mean of the copies; 1: all of it, which is "
      "LocalSGD; DiLoCo takes 0.7.",
      of_outer<&optim::OuterConfig::learning_rate>};
  Real momentum{*this,
                "momentum",
                "",
                "0.0",
                below(0, 1),
                "Nesterov's, of that movement; DiLoCo takes 0.9.",
                of_outer<&optim::OuterConfig::momentum>};
};

namespace key {
inline constexpr OptimizerKeys optimizer;
inline constexpr ScheduleKeys schedule;
inline constexpr MuonKeys muon;
inline constexpr OuterKeys outer;
}  // namespace key

}  // namespace trireme::config
