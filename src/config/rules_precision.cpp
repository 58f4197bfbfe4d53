// Rules about the deck's precision section.
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"
#include "config/run_precision.hpp"
#include "optim/stored_numbers.hpp"

namespace trireme::config {
namespace {

// Whether query heads, and with them key and value heads, have a width on each tensor
// rank that `multiple` divides. True where heads are not sound: other rules say so.
bool heads_fit(const model::ModelConfig& m, int ranks, std::int64_t multiple) {
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

void Rules::precision_rules() {
  const PrecisionSettings& precision = config_.precision;
  const std::string_view compute = compute_of(precision.recipe);
  rule(
      {"precision.recipe", "precision.compute"},
      [&] { return deck_.text("precision.compute") == compute; },
      [&] {
        return show("precision.recipe") + " multiplies in " + std::string(compute) +
               ", which contradicts " + show("precision.compute") +
               advise({{"precision.compute", {format("\"{}\"", compute)}},
                       {"precision.recipe", {"\"auto\""}}});
      });
  const bool proof = deck_.text("precision.compute") == "fp64";
  for (const ClassKey& row : class_keys())
    rule(
        {row.key, "precision.compute"},
        [&] {
          const std::string& type = deck_.text(row.key);
          return type == "auto" || (type == "fp64") == proof;
        },
        [&] {
          return show(row.key) + " with " + show("precision.compute") +
                 (proof ? " would spoil the proof" : " is of no use") +
                 format(": write {} = \"auto\"", row.key);
        });
  rule(
      {"precision.rounding", "precision.recipe", "precision.master"},
      [&] {
        return deck_.text("precision.rounding") != "stochastic" ||
               size_of(precision.recipe[TensorClass::master].type) == 2;
      },
      [&] {
        return show("precision.rounding") + " with " + show("precision.recipe") +
               ": the optimizer updates weights in " +
               std::string(name_of(precision.recipe[TensorClass::master].type)) +
               ", which loses no small step" +
               advise({{"precision.rounding", {"\"auto\""}},
                       {"precision.master", {"\"bf16\""}}});
      });
  feedback_rules();
  layer_rules();
}

// Residuals are in the unit of the gradients, which a loss scale changes as it goes.
void Rules::feedback_rules() {
  const Recipe& recipe = config_.precision.recipe;
  rule(
      {"precision.error_feedback", "precision.gradient_reduce", "precision.recipe"},
      [&] {
        return !config_.precision.error_feedback ||
               size_of(recipe[TensorClass::gradient_traffic].type) <= 2;
      },
      [&] {
        return show("precision.error_feedback") + " with gradients that travel in " +
               std::string(name_of(recipe[TensorClass::gradient_traffic].type)) +
               ": nothing is rounded" +
               advise({{"precision.error_feedback", {"false"}},
                       {"precision.gradient_reduce", {"\"bf16\"", "\"fp8\""}}});
      });
  rule(
      {"precision.error_feedback", "precision.compute"},
      [&] {
        return !config_.precision.error_feedback ||
               recipe[TensorClass::activation].type != DType::f16;
      },
      [&] {
        return show("precision.error_feedback") + " with " + show("precision.compute") +
               ": a changed loss scale would change what is carried over: write "
               "precision.error_feedback = false, or precision.compute = \"bf16\"";
      });
}

// Blocks that stay in bf16, and sizes that tensor cores can multiply.
void Rules::layer_rules() {
  const PrecisionSettings& precision = config_.precision;
  const auto& m = config_.model;
  for (const auto* key : {"precision.first_bf16", "precision.last_bf16"})
    rule(
        {key, "precision.compute"},
        [&] { return precision.recipe.fp8() || deck_.integer(key) == 0; },
        [&] {
          return show(key) + " has no meaning with " + show("precision.compute") +
                 format(": write {} = 0", key);
        });
  if (!precision.recipe.fp8()) return;
  rule(
      {"precision.first_bf16", "precision.last_bf16", "model.layers"},
      [&] { return precision.first_bf16 + precision.last_bf16 <= m.layers; },
      [&] {
        return show("precision.first_bf16") + " and " + show("precision.last_bf16") +
               " together exceed " + show("model.layers") +
               advise({{"precision.first_bf16",
                        {std::to_string(
                            std::max<std::int64_t>(m.layers - precision.last_bf16, 0))}},
                       {"precision.last_bf16",
                        {std::to_string(
                            std::max<std::int64_t>(m.layers - precision.first_bf16, 0))}},
                       {"model.layers",
                        {std::to_string(precision.first_bf16 + precision.last_bf16)}}});
      });
  fp8_size_rules();
}

// Each extent of a product is a multiple of 16, or of MXFP8's blocks, on every rank.
void Rules::fp8_size_rules() {
  const Scaling scaling = config_.precision.recipe[TensorClass::forward_operand].scaling;
  const std::int64_t multiple = scaling == Scaling::mx ? mx_block : 16;
  const auto& m = config_.model;
  const auto& mesh = config_.parallel.mesh;
  const auto fits = [multiple](std::int64_t extent, std::int64_t parts) {
    return splits(extent, parts, multiple);
  };
  const auto must = [&](const std::string& what, std::int64_t parts) {
    return must_be(what, multiple * parts);
  };
  rule(
      {"model.hidden", "precision.compute"}, [&] { return fits(m.hidden, 1); },
      [&] {
        return must(show("model.hidden"), 1) +
               advise({{"model.hidden", multiples_from(m.hidden, multiple)}});
      });
  rule(
      {"model.feed_forward", "parallel.tensor", "precision.compute"},
      [&] { return fits(m.feed_forward, mesh.tensor); },
      [&] {
        const std::int64_t of = multiple * mesh.tensor;
        return must(show("model.feed_forward", m.feed_forward), mesh.tensor) +
               advise({{"model.feed_forward", multiples_from(m.feed_forward, of)}});
      });
  if (m.has_experts()) fp8_expert_rules(multiple);
  rule(
      {"model.heads", "model.kv_heads", "model.hidden", "parallel.tensor"},
      [&] { return heads_fit(m, mesh.tensor, multiple); },
      [&] {
        return show("model.heads") + " of width " + std::to_string(m.head_width()) +
               " and " + show("model.kv_heads", m.kv_heads) + " over " +
               show("parallel.tensor") +
               format(
                   ": the width on each rank must be a multiple of {} with "
                   "precision.compute = \"fp8\"",
                   multiple) +
               advise({{"model.heads", divisors_up_to(m.hidden, m.hidden / 2)},
                       {"model.kv_heads", divisors_up_to(m.heads, m.heads)},
                       {"model.hidden", multiples_from(m.hidden, multiple * m.heads)}});
      });
  rule(
      {"batch.micro", "model.sequence", "parallel.context", "precision.compute"},
      [&] { return fits(config_.batch.micro * m.sequence, mesh.context); },
      [&] {
        return show("batch.micro") + " x " + show("model.sequence") + " tokens over " +
               show("parallel.context") +
               format(
                   " must be a multiple of {} on each rank with precision.compute = "
                   "\"fp8\"",
                   multiple) +
               advise({{"batch.micro",
                        numbers(config_.batch.micro, config_.batch.micro + multiple)},
                       {"model.sequence",
                        multiples_from(m.sequence, multiple * mesh.context)}});
      });
}

// The same of experts, which have a width of their own.
void Rules::fp8_expert_rules(std::int64_t multiple) {
  const auto& m = config_.model;
  const std::int64_t parts = config_.parallel.mesh.tensor;
  rule(
      {"model.moe.expert_feed_forward", "model.moe.shared_experts", "parallel.tensor",
       "precision.compute"},
      [&] {
        return splits(m.expert_width(), parts, multiple) &&
               splits(m.moe.shared_experts * m.expert_width(), parts, multiple);
      },
      [&] {
        return must_be(show("model.moe.expert_feed_forward", m.expert_width()),
                       multiple * parts) +
               advise({{"model.moe.expert_feed_forward",
                        multiples_from(m.expert_width(), multiple * parts)}});
      });
}

}  // namespace trireme::config
