// Rules about what is made of data, and about what is shown of a run.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "config/profile_window.hpp"
#include "config/rules.hpp"

namespace trireme::config {

void DataRules::sample_rules() {
  const MetricsSettings& metrics = config_.metrics;
  const bool off = metrics.sample_every == 0;
  const bool synthetic = config_.data.kind == io::SourceKind::synthetic;
  for (const io::DeckKey& setting :
       {KeyRef(key::metrics.sample_prompts), KeyRef(key::metrics.sample_tokens),
        KeyRef(key::metrics.sample_temperature)})
    meaningless(
        setting, key::metrics.sample_every, off,
        synthetic ? ": remove it" : ": remove it, or write metrics.sample_every = 100");
  if (off) return;
  rule({key::metrics.sample_every, key::metrics.sample_prompts},
       !metrics.sample_prompts.empty(), key::metrics.sample_every,
       " needs beginnings of texts: write metrics.sample_prompts = [\"Once\"]");
  rule({key::metrics.sample_every, key::data.source, key::data.tokenizer},
       config_.data.kind == io::SourceKind::bytes ||
           (!synthetic && !config_.data.tokenizer.empty()),
       key::metrics.sample_every, " writes text, but ", key::data.source,
       " has token ids only: write ",
       (synthetic ? "another data.source, or "
                  : "data.tokenizer = \"tokenizer.json\", or "),
       [&] {
         return "metrics.sample_every = 0" +
                and_defaults({key::metrics.sample_prompts, key::metrics.sample_tokens,
                              key::metrics.sample_temperature});
       });
}

void DataRules::infilling_rules() {
  const io::InfillingConfig& infilling = config_.data.infilling;
  // These have no tokenizer, so that none can be advised.
  const bool wordless = config_.data.kind == io::SourceKind::synthetic ||
                        config_.data.kind == io::SourceKind::bytes;
  for (const io::DeckKey& setting :
       {KeyRef(key::data.fim_spm), KeyRef(key::data.fim_tokens)})
    meaningless(setting, key::data.fim_rate, infilling.rate == 0,
                wordless ? ": remove it" : ": remove it, or write data.fim_rate = 0.5");
  rule({key::data.fim_tokens, key::data.fim_rate},
       infilling.rate == 0 || infilling.tokens.size() == 3, key::data.fim_tokens,
       " must name three tokens: before the prefix, the suffix and the middle");
  const auto none = [&] {
    const bool packed = config_.data.packing != io::Packing::none;
    return "data.fim_rate = 0.0" +
           and_defaults({key::data.fim_spm, key::data.fim_tokens}) +
           (packed ? "" : and_defaults({key::data.end_token}));
  };
  rule({key::data.fim_rate, key::data.source}, infilling.rate == 0 || !wordless,
       key::data.fim_rate, " cuts text into tokens, but ", key::data.source,
       " has no tokenizer: write another data.source, or ", none);
  const auto is_chat = [](io::SourceKind kind) {
    return kind == io::SourceKind::chat || kind == io::SourceKind::preference;
  };
  rule({key::data.fim_rate, key::data.source, key::data.blend},
       infilling.rate == 0 ||
           (!is_chat(config_.data.kind) &&
            std::ranges::none_of(config_.data.blend, is_chat, &io::BlendPart::kind)),
       key::data.fim_rate, " is for texts, but ", key::data.source,
       " has conversations, of which not every token is a target: write ", none);
  rule({key::data.fim_rate, key::data.source, key::data.tokenizer},
       infilling.rate == 0 || wordless || !config_.data.tokenizer.empty(),
       key::data.fim_rate, " cuts text, but ", key::data.tokenizer,
       ": write data.tokenizer = \"tokenizer.json\", or ", none);
}

void DataRules::preference_rules() {
  const bool dpo = config_.learns_pairs();
  for (const io::DeckKey& setting :
       {KeyRef(key::dpo.loss), KeyRef(key::dpo.beta), KeyRef(key::dpo.label_smoothing)})
    meaningless(setting, key::train.objective, !dpo,
                ": remove it, or write train.objective = \"dpo\"");
  const auto has_pairs = [](const io::SourceConfig& source) {
    return source.kind == io::SourceKind::preference;
  };
  rule({key::train.objective, key::data.source}, dpo == has_pairs(config_.data),
       key::train.objective, dpo ? " learns from pairs of answers, but " : ", but ",
       key::data.source,
       dpo ? ": write data.source = \"preference\""
           : " has pairs of answers: write train.objective = \"dpo\"");
  rule({key::train.objective, key::data.validation_source},
       dpo || !has_pairs(config_.validation) || has_pairs(config_.data),
       key::data.validation_source, " has pairs of answers, but ", key::train.objective,
       ": write train.objective = \"dpo\"");
  if (!dpo) return;
  rule({key::dpo.label_smoothing, key::dpo.loss},
       config_.train.pairs.label_smoothing == 0 ||
           config_.train.pairs.kind <= nn::PreferenceLoss::Kind::robust,
       key::dpo.label_smoothing, " belongs to sigmoid and robust, but ", key::dpo.loss,
       ": write train.dpo.label_smoothing = 0.0");
  const std::string why = " and " + show(key::train.objective) + ", ";
  rule({key::data.packing, key::train.objective},
       config_.data.packing != io::Packing::concatenate, key::data.packing, why,
       "whose pairs of answers it would cut: write data.packing = \"best_fit\"");
  rule({key::data.loss_on, key::train.objective}, config_.data.loss_on != io::LossOn::all,
       key::data.loss_on, why,
       "which compares answers, not prompts: write data.loss_on = \"auto\"");
  rule({key::model.z_loss, key::train.objective}, config_.z_loss == 0, key::model.z_loss,
       why, "whose loss has no such part: write model.z_loss = 0.0");
  rule({key::batch.sequence_ramp, key::train.objective},
       config_.batch.sequence_ramp.empty(), key::batch.sequence_ramp, why,
       "whose pairs of answers it would cut: remove it");
  rule({key::run.cuda_graphs, key::train.objective}, !config_.run.cuda_graphs,
       key::run.cuda_graphs, why,
       "whose pairs the host computes with: write run.cuda_graphs = false");
  rule({key::precision.recipe, key::train.objective},
       config_.precision.recipe[TensorClass::forward_operand].scaling != Scaling::delayed,
       key::precision.recipe, why,
       "whose reference is asked before there is a history of scales: write a recipe of "
       "current or block scaling");
  rule({key::attention.library, key::train.objective},
       config_.run.attention != AttentionChoice::cudnn, key::attention.library,
       " has no documents here, which answers are with ", key::train.objective,
       ": write attention.library = \"auto\"");
}

void DataRules::ramp_rules() {
  ramp_part_rules(key::batch.ramp, deck_[key::batch.ramp]);
  ramp_part_rules(key::batch.sequence_ramp, deck_[key::batch.sequence_ramp]);
  const BatchSettings& batch = config_.batch;
  const std::int64_t data = config_.parallel.mesh.data;
  for (const RampPart& part : batch.ramp) {
    rule({key::batch.ramp, key::batch.global}, part.value <= batch.global,
         key::batch.ramp, format(" has {} sequences, more than ", part.value),
         key::batch.global, ", for which memory is planned: write the largest there");
    ranks_rule(
        {key::batch.ramp, key::batch.micro},
        [&] { return part.value >= batch.micro * data; },
        [&] {
          return show(key::batch.ramp) +
                 format(" has {} sequences, less than a microbatch, ", part.value) +
                 show(key::batch.micro) +
                 format(", for each of {} data ranks: write at least {}", data,
                        batch.micro * data);
        });
    rule(
        {key::batch.ramp, key::batch.micro},
        [&] { return part.value % batch.micro == 0; }, key::batch.ramp,
        format(" has {} sequences, which ", part.value), key::batch.micro,
        format(" does not divide: write a multiple of {}", batch.micro));
  }
  for (const RampPart& part : batch.sequence_ramp)
    rule(
        {key::batch.sequence_ramp, key::model.sequence},
        [&] { return config_.model.sequence % part.value == 0; },
        key::batch.sequence_ramp,
        format(" cuts after {} tokens, which does not divide ", part.value),
        key::model.sequence, ": write a divisor of it");
  rule({key::run.cuda_graphs, key::batch.ramp},
       !config_.run.cuda_graphs || batch.ramp.empty(), key::run.cuda_graphs,
       " records one number of microbatches, but ", key::batch.ramp,
       " has several: write run.cuda_graphs = false");
  rule({key::attention.library, key::batch.sequence_ramp},
       batch.sequence_ramp.empty() || config_.run.attention != AttentionChoice::cudnn,
       key::attention.library, " has no documents here, but ", key::batch.sequence_ramp,
       ": write attention.library = \"auto\"");
}

namespace {

// None where another rule says what is wrong with them.
std::vector<NumberSpan> profiled_steps(const std::string& profile) {
  try {
    return parse_profile(profile).steps;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void DataRules::skip_rules() {
  std::string wrong;
  for (const std::string& text : deck_[key::data.skip_steps]) {
    try {
      parse_step_range(text);
    } catch (const Error& error) {
      wrong = error.what();
    }
  }
  rule({key::data.skip_steps}, wrong.empty(), full_name(key::data.skip_steps), ": ",
       wrong);
  const std::vector<StepRange>& ranges = config_.batch.passed_over;
  rule(
      {key::data.skip_steps, key::run.steps},
      [&] {
        return std::all_of(ranges.begin(), ranges.end(), [&](const StepRange& range) {
          return range.last <= config_.run.steps;
        });
      },
      key::data.skip_steps, " names a step after ", key::run.steps,
      ", the last: remove it");
  const std::vector<NumberSpan> profiled = profiled_steps(config_.metrics.profile);
  rule(
      {key::metrics.profile, key::data.skip_steps},
      [&] {
        return std::none_of(
            profiled.begin(), profiled.end(),
            [&](const NumberSpan& span) { return config_.passes_over(span.first); });
      },
      key::metrics.profile, " begins with a step that nothing is done in by ",
      key::data.skip_steps, ": remove it from one of them");
  const std::vector<std::int64_t>& dumped = config_.debug.dump_gradients;
  rule(
      {key::debug.dump_gradients, key::data.skip_steps},
      [&] {
        return std::none_of(dumped.begin(), dumped.end(),
                            [&](std::int64_t step) { return config_.passes_over(step); });
      },
      key::debug.dump_gradients, " names a step that has no gradients by ",
      key::data.skip_steps, ": remove it from one of them");
}

void DataRules::ramp_part_rules(const io::DeckKey& key,
                                const std::vector<std::string>& parts) {
  std::string wrong;
  std::int64_t before = 0;
  for (const std::string& text : parts) {
    try {
      const RampPart part = parse_ramp_part(text);
      if (part.until_tokens <= before && wrong.empty())
        wrong = "\"" + text + "\" ends before the part before it: write ascending tokens";
      before = part.until_tokens;
    } catch (const Error& error) {
      wrong = error.what();
    }
  }
  rule({key}, wrong.empty(), full_name(key), ": ", wrong);
}

void DataRules::profile_rules() {
  ProfileWindow window;
  std::string wrong;
  try {
    window = parse_profile(config_.metrics.profile);
  } catch (const Error& error) {
    wrong = error.what();
  }
  rule({key::metrics.profile}, wrong.empty(), full_name(key::metrics.profile), ": ",
       wrong);
  if (!wrong.empty()) return;
  rule({key::metrics.profile, key::run.steps}, window.last_step() <= config_.run.steps,
       key::metrics.profile, " names a step after ", key::run.steps,
       ", the last: write earlier steps");
  ranks_rule({key::metrics.profile}, window.last_rank() < ranks_, key::metrics.profile,
             [&] {
               return format(
                   " names rank {}, but the number of ranks is {}: write ranks below {}, "
                   "or \"@all\"",
                   window.last_rank(), ranks_, ranks_);
             });
}

}  // namespace trireme::config
