// Rules about the deck's precision section.
// SPDX-License-Identifier: Apache-2.0
#include "config/precision.hpp"
#include "config/rules.hpp"
#include "optim/stored_numbers.hpp"

namespace trireme::config {
namespace {

// Whether query heads, and with them key and value heads, have a width on each tensor
// rank that `multiple` divides. True where heads are not sound: other rules say so.
bool heads_fit(const model::ModelConfig& m, int ranks, std::int64_t multiple) {
  if (m.row().latent) return true;
  if (m.own_head_width == 0 && m.hidden % m.heads != 0) return true;
  if (m.heads % m.kv_heads != 0) return true;
  const std::int64_t per = m.heads / m.kv_heads;
  for (int rank = 0; rank < ranks; ++rank) {
    const Range heads = split_range(m.heads, ranks, rank);
    if (heads.count() == 0) continue;
    const std::int64_t kv = (heads.end - 1) / per + 1 - heads.begin / per;
    if (heads.count() * m.head_width() % multiple != 0 ||
        (heads.count() + 2 * kv) * m.head_width() % multiple != 0)
      return false;
  }
  return true;
}

// Whether each part is a multiple of `multiple`.
bool splits(std::int64_t extent, std::int64_t parts, std::int64_t multiple) {
  return extent % parts == 0 && extent / parts % multiple == 0;
}

std::string must_be(const std::string& what, std::int64_t multiple) {
  return what +
         format(" must be a multiple of {} with precision.compute = \"fp8\"", multiple);
}

}  // namespace

void PrecisionRules::precision_rules() {
  const PrecisionSettings& precision = config_.precision;
  const std::string_view compute = compute_of(precision.recipe);
  rule({key::precision.recipe, key::precision.compute},
       compute_of(*deck_[key::precision.compute]) == compute, key::precision.recipe,
       " multiplies in ", std::string(compute), ", which contradicts ",
       key::precision.compute, [&] {
         return advise({{key::precision.compute, {format("\"{}\"", compute)}},
                        {key::precision.recipe, {"\"auto\""}}});
       });
  const bool proof = compute_of(*deck_[key::precision.compute]) == "fp64";
  for (const ClassKey& row : class_keys())
    rule(
        {row.key, key::precision.compute},
        [&] {
          const std::optional<Precision> type = deck_[row.key];
          return !type || (type->type == DType::f64) == proof;
        },
        row.key, " with ", key::precision.compute,
        (proof ? " would spoil the proof" : " is of no use"), ": write ",
        full_name(row.key), " = \"auto\"");
  rule({key::precision.rounding, key::precision.recipe, key::precision.master},
       deck_[key::precision.rounding] != Rounding::stochastic ||
           size_of(precision.recipe[TensorClass::master].type) == 2,
       key::precision.rounding, " with ", key::precision.recipe,
       ": the optimizer updates weights in ",
       std::string(name_of(precision.recipe[TensorClass::master].type)),
       ", which loses no small step", [&] {
         return advise({{key::precision.rounding, {"\"auto\""}},
                        {key::precision.master, {"\"bf16\""}}});
       });
  meaningless(key::precision.logits, key::precision.compute,
              precision.compute == precision.accumulate,
              ", whose logits have the type of its sums: write precision.logits = "
              "\"auto\"");
  rule({key::precision.logits, key::model.logit_cap},
       precision.logits != LogitsType::compute || config_.model.logit_cap == 0,
       key::precision.logits, " with ", key::model.logit_cap,
       ": the gradient of capped logits needs the logits beside it: write "
       "precision.logits = \"fp32\"");
  meaningless(key::precision.tf32, key::precision.compute,
              precision.compute != DType::f32, ": write precision.tf32 = false");
  rule({key::precision.tf32, key::run.device},
       !precision.tf32 || config_.run.device == DeviceChoice::cuda, key::precision.tf32,
       " is for GPUs, but ", key::run.device, " may take none", [&] {
         return advise(
             {{key::run.device, {"\"cuda\""}}, {key::precision.tf32, {"false"}}});
       });
  loss_scale_rules();
  feedback_rules();
  layer_rules();
}

// An overflow halves the scale, down to the floor, and ends the run there.
void PrecisionRules::loss_scale_rules() {
  const bool scaled =
      config_.precision.recipe[TensorClass::activation].type == DType::f16;
  for (const io::DeckKey& of_scale :
       {KeyRef(key::precision.loss_scale), KeyRef(key::precision.loss_scale_interval),
        KeyRef(key::precision.loss_scale_floor)})
    meaningless(of_scale, key::precision.compute, !scaled && !is_stored(),
                ": write " + default_of(of_scale));
  const double scale = deck_[key::precision.loss_scale];
  rule({key::precision.loss_scale, key::precision.loss_scale_floor},
       !scaled || deck_[key::precision.loss_scale_floor] <= scale,
       key::precision.loss_scale_floor, " is more than ", key::precision.loss_scale,
       ": the first overflow would end the run: write precision.loss_scale_floor = " +
           exact(scale) + " or less");
}

// Residuals are in the unit of the gradients, which a loss scale changes as it goes.
void PrecisionRules::feedback_rules() {
  const Recipe& recipe = config_.precision.recipe;
  rule({key::precision.error_feedback, key::precision.gradient_reduce,
        key::precision.recipe},
       !config_.precision.error_feedback ||
           size_of(recipe[TensorClass::gradient_traffic].type) <= 2,
       key::precision.error_feedback, " with gradients that travel in ",
       std::string(name_of(recipe[TensorClass::gradient_traffic].type)),
       ": nothing is rounded", [&] {
         return advise({{key::precision.error_feedback, {"false"}},
                        {key::precision.gradient_reduce, {"\"bf16\"", "\"fp8\""}}});
       });
  rule({key::precision.error_feedback, key::precision.compute},
       !config_.precision.error_feedback ||
           recipe[TensorClass::activation].type != DType::f16,
       key::precision.error_feedback, " with ", key::precision.compute,
       ": a changed loss scale would change what is carried over: write "
       "precision.error_feedback = false, or ",
       [&] { return bf16_instead(); });
}

// Blocks that stay in bf16, and sizes that tensor cores can multiply.
void PrecisionRules::layer_rules() {
  const PrecisionSettings& precision = config_.precision;
  const auto& m = config_.model;
  for (const io::DeckKey& blocks :
       {KeyRef(key::precision.first_bf16), KeyRef(key::precision.last_bf16)})
    meaningless(blocks, key::precision.compute, !precision.recipe.fp8(),
                ": write " + full_name(blocks) + " = 0");
  meaningless(key::precision.keep_weight_codes, key::precision.compute,
              !precision.recipe.fp8(), ": write precision.keep_weight_codes = false");
  const bool delayed =
      precision.recipe[TensorClass::forward_operand].scaling == Scaling::delayed;
  for (const io::DeckKey& of_history :
       {KeyRef(key::precision.amax_history), KeyRef(key::precision.margin)})
    meaningless(of_history, key::precision.recipe, !delayed && !is_stored(),
                ": write " + default_of(of_history) +
                    ", or precision.recipe = \"te_delayed\" with "
                    "precision.compute = \"fp8\"");
  if (!precision.recipe.fp8()) return;
  rule({key::precision.recipe, key::run.device},
       precision.recipe[TensorClass::forward_operand].scaling != Scaling::mx ||
           config_.run.device != DeviceChoice::cuda,
       key::precision.recipe, " and ", key::run.device,
       ": scales of 32 numbers are made on CPUs alone", [&] {
         return advise({{key::precision.recipe, {"\"te_blocks\"", "\"te_current\""}},
                        {key::run.device, {"\"cpu\""}}});
       });
  rule({key::precision.keep_weight_codes, key::parallel.sharding_strategy},
       !precision.keep_weight_codes ||
           config_.parallel.sharding != optim::Sharding::weights,
       key::precision.keep_weight_codes, " with ", key::parallel.sharding_strategy,
       ": codes would hold on every rank what the strategy shares out: write "
       "precision.keep_weight_codes = false, or parallel.sharding_strategy = "
       "\"SHARD_GRAD_OP\"");
  rule({key::precision.first_bf16, key::precision.last_bf16, key::model.layers},
       precision.first_bf16 + precision.last_bf16 <= m.layers, key::precision.first_bf16,
       " and ", key::precision.last_bf16, " together exceed ", key::model.layers, [&] {
         return advise({{key::precision.first_bf16,
                         {std::to_string(
                             std::max<std::int64_t>(m.layers - precision.last_bf16, 0))}},
                        {key::precision.last_bf16,
                         {std::to_string(std::max<std::int64_t>(
                             m.layers - precision.first_bf16, 0))}},
                        {key::model.layers,
                         {std::to_string(precision.first_bf16 + precision.last_bf16)}}});
       });
  fp8_size_rules();
}

// Each extent of a product is a multiple of 16, or of MXFP8's blocks, on every rank.
void PrecisionRules::fp8_size_rules() {
  const Scaling scaling = config_.precision.recipe[TensorClass::forward_operand].scaling;
  const std::int64_t multiple = scaling == Scaling::mx ? mx_block : 16;
  const auto& m = config_.model;
  const auto& mesh = config_.parallel.mesh;
  const auto fits = [multiple](std::int64_t extent, std::int64_t parts) {
    return splits(extent, parts, multiple);
  };
  rule(
      {key::model.hidden, key::precision.compute}, [&] { return fits(m.hidden, 1); },
      [&] {
        return must_be(show(key::model.hidden), multiple) +
               advise_for_fp8({{key::model.hidden, multiples_from(m.hidden, multiple)}});
      });
  rule(
      {key::model.feed_forward, key::parallel.tensor, key::precision.compute},
      [&] { return fits(m.feed_forward, mesh.tensor); },
      [&] {
        const std::int64_t of = multiple * mesh.tensor;
        return must_be(show(key::model.feed_forward, m.feed_forward), of) +
               advise_for_fp8(
                   {{key::model.feed_forward, multiples_from(m.feed_forward, of)}});
      });
  if (m.has_experts()) fp8_expert_rules(multiple);
  rule(
      {key::model.heads, key::model.kv_heads, key::model.hidden, key::parallel.tensor},
      [&] { return heads_fit(m, mesh.tensor, multiple); }, key::model.heads, " of width ",
      [&] { return std::to_string(m.head_width()); }, " and ",
      Resolved{key::model.kv_heads, m.kv_heads}, " over ", key::parallel.tensor,
      [&] {
        return format(
            ": the width on each rank must be a multiple of {} with "
            "precision.compute = \"fp8\"",
            multiple);
      },
      [&] {
        return advise_for_fp8(
            {{key::model.heads, divisors_up_to(m.hidden, m.hidden / 2)},
             {key::model.kv_heads, divisors_up_to(m.heads, m.heads)},
             {key::model.hidden, multiples_from(m.hidden, multiple * m.heads)}});
      });
  rule(
      {key::batch.micro, key::model.sequence, key::parallel.context,
       key::precision.compute},
      [&] { return fits(config_.batch.micro * m.sequence, mesh.context); },
      key::batch.micro, " x ", key::model.sequence, " tokens over ",
      key::parallel.context,
      [&] {
        return format(
            " must be a multiple of {} on each rank with precision.compute = "
            "\"fp8\"",
            multiple);
      },
      [&] {
        return advise(
            {{key::batch.micro,
              numbers(config_.batch.micro, config_.batch.micro + multiple)},
             {key::model.sequence, multiples_from(m.sequence, multiple * mesh.context)}});
      });
}

// The same of experts, which have a width of their own.
void PrecisionRules::fp8_expert_rules(std::int64_t multiple) {
  const auto& m = config_.model;
  const std::int64_t parts = config_.parallel.mesh.tensor;
  rule(
      {key::moe.expert_feed_forward, key::parallel.tensor, key::precision.compute},
      [&] { return splits(m.expert_width(), parts, multiple); },
      [&] {
        return must_be(show(key::moe.expert_feed_forward, m.expert_width()),
                       multiple * parts) +
               advise_for_fp8({{key::moe.expert_feed_forward,
                                multiples_from(m.expert_width(), multiple * parts)}});
      });
  // Without a width of its own it is as wide as several experts.
  const std::int64_t shared = m.moe.shared_feed_forward;
  rule(
      {key::moe.shared_feed_forward, key::parallel.tensor, key::precision.compute},
      [&] { return shared == 0 || splits(shared, parts, multiple); },
      [&] {
        return must_be(show(key::moe.shared_feed_forward), multiple * parts) +
               advise_for_fp8({{key::moe.shared_feed_forward,
                                multiples_from(shared, multiple * parts)}});
      });
}

}  // namespace trireme::config
