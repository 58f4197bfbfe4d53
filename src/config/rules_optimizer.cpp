// Rules about the optimizer and its groups of tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "config/rules.hpp"
#include "model/adapted_modules.hpp"
#include "model/stage.hpp"
#include "optim/parameter_groups.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::config {
namespace {

// The whole model with the run's adapters, on the device without memory.
model::Stage whole_stage(const RunConfig& config) {
  return {{.model = config.model,
           .blocks = {0, config.model.layers},
           .adapter = config.adapter.matrices},
          parallel::TensorRegion::whole(),
          Device::meta()};
}

// What is wrong with a group for this model, as a sentence; empty if nothing is.
std::string misfit_of(const optim::ParameterGroup& group, model::Stage& stage) {
  const std::string& pattern = group.pattern;
  optim::OptimizerConfig alone;
  alone.groups = {group};
  bool fits = false;
  try {
    for (Param* param : stage.parameters()) {
      optim::apply_groups(alone, *param);
      for (const NamedBox& named : param->boxes) {
        fits = fits || optim::matches(pattern, named.tensor);
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  if (fits) return {};
  return "the pattern \"" + pattern + "\" fits no tensor: the first are called " +
         stage.parameters()[0]->boxes[0].tensor + " and " +
         stage.parameters()[1]->boxes[0].tensor;
}

bool trains_something(const RunConfig& config, model::Stage& stage) {
  return std::ranges::any_of(stage.parameters(), [&](Param* param) {
    param->frozen = false;
    optim::apply_groups(config.optimizer, *param);
    model::freeze_base(config.adapter.matrices, *param);
    return !param->frozen;
  });
}

}  // namespace

void OptimizerRules::optimizer_rules() {
  const auto& schedule = config_.optimizer.schedule;
  rule({key::optimizer.betas, key::optimizer.name},
       deck_[key::optimizer.betas].size() == 2, key::optimizer.betas,
       " must have two elements: write [0.9, 0.95]");
  const bool matrices = config_.optimizer.for_matrices();
  rule({key::parallel.offload, key::optimizer.name},
       !matrices || config_.parallel.offload == optim::Offload::none,
       key::parallel.offload, " cannot be with ", key::optimizer.name,
       ", which multiplies matrices where the weights are computed with: write "
       "parallel.offload = \"none\", or optimizer.name = \"adamw\"");
  if (matrices) needs_plain_state(key::optimizer.name, "\"adamw\"");
  rule({key::schedule.decay, key::schedule.name},
       schedule.kind != optim::DecayStyle::wsd || schedule.decay > 0, key::schedule.decay,
       " leaves ", key::schedule.name, " without its decay", [&] {
         return advise(
             {{key::schedule.decay,
               numbers(std::max<std::int64_t>(1, config_.optimizer.steps / 5), 1)},
              {key::schedule.name, {"\"constant\""}}});
       });
  meaningless(key::schedule.decay, key::schedule.name,
              schedule.kind == optim::DecayStyle::constant,
              std::vector{Advice(key::schedule.decay, {"0"}),
                          Advice(key::schedule.name, {"\"wsd\""})});
  const std::int64_t all = config_.optimizer.steps,
                     used = schedule.warmup + schedule.decay;
  const bool by_steps = schedule.tokens.empty();
  rule(
      {key::schedule.warmup, key::schedule.decay, key::run.steps}, used <= all,
      key::schedule.warmup,
      [&] {
        return schedule.decay == 0
                   ? std::string(" exceeds ")
                   : " and " + show(key::schedule.decay) + " together exceed ";
      },
      [&] {
        return show(key::run.steps) +
               (by_steps ? std::string() : format(", which have {} tokens", all));
      },
      [&] {
        std::vector<Advice> mends = {
            {key::schedule.warmup, {std::to_string(all - schedule.decay)}}};
        if (by_steps)
          mends.insert(mends.begin(), {key::run.steps, {std::to_string(used)}});
        return advise(mends);
      });
}

// Each group is well-formed, fits some tensor of the model, and not part of what is
// stored together; together they leave something to train.
void OptimizerRules::group_rules() {
  const std::vector<std::string> texts = deck_[key::optimizer.groups];
  if (is_quiet() || texts.empty() || !deck_.sound(key::optimizer.groups)) return;
  std::string wrong;
  std::vector<optim::ParameterGroup> groups;
  for (const std::string& text : texts) {
    rule(
        {key::optimizer.groups},
        [&] {
          try {
            groups.push_back(optim::parse_group(text));
          } catch (const Error& error) {
            wrong = error.what();
            return false;
          }
          return true;
        },
        "optimizer.groups: ", wrong);
  }
  if (!nothing_broken()) return;  // the model itself may be none
  model::Stage stage = whole_stage(config_);
  for (const optim::ParameterGroup& group : groups) {
    rule(
        {key::optimizer.groups},
        [&] {
          wrong = misfit_of(group, stage);
          return wrong.empty();
        },
        "optimizer.groups: ", wrong);
  }
  rule(
      {key::optimizer.groups},
      [&] { return !nothing_broken() || trains_something(config_, stage); },
      key::optimizer.groups,
      " freezes every tensor, so that no step changes anything: leave some to be "
      "trained");
}

}  // namespace trireme::config
