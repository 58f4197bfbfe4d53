// Rules about the deck's precision section.
// SPDX-License-Identifier: Apache-2.0
#include "optim/stored_numbers.hpp"
#include "train/rules.hpp"
#include "train/run_precision.hpp"

namespace trireme::train {

void Rules::precision_rules() {
  const PrecisionSettings& precision = config_.precision;
  const std::string_view compute = compute_of(precision.recipe);
  rule(
      {"precision.recipe", "precision.compute"},
      [&] { return deck_.text("precision.compute") == compute; },
      [&] {
        return show("precision.recipe") + " multiplies in " + std::string(compute) +
               ", which contradicts " + show("precision.compute") +
               format(
                   ": write precision.compute = \"{}\", or precision.recipe = "
                   "\"auto\"",
                   compute);
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
      {"parallel.offload", "precision.recipe", "precision.gradient_reduce",
       "precision.master", "precision.moments"},
      [&] {
        const bool adamw = config_.optimizer.kind == optim::OptimizerKind::adamw;
        return config_.parallel.offload == optim::Offload::none ||
               optim::keeps_wide(precision.recipe, adamw);
      },
      [&] {
        return show("parallel.offload") + " with " + show("precision.recipe") +
               ": the host updates state of the type of sums alone: write "
               "parallel.offload = \"none\", or a recipe and types that keep " +
               std::string(name_of(precision.accumulate)) + " state";
      });
  layer_rules();
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
               " together exceed " + show("model.layers") + ": write smaller ones";
      });
}

}  // namespace trireme::train
