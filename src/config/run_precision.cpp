// Reading the deck's precision section.
// SPDX-License-Identifier: Apache-2.0
#include "config/run_precision.hpp"

#include <array>

namespace trireme::config {
namespace {

constexpr std::array weights = {TensorClass::weight, TensorClass::weight_traffic};
constexpr std::array traffic = {TensorClass::gradient_traffic};
constexpr std::array master = {TensorClass::master};
constexpr std::array moments = {TensorClass::moment1, TensorClass::moment2};
constexpr std::array keys = {ClassKey{"precision.weights", weights},
                             ClassKey{"precision.gradient_reduce", traffic},
                             ClassKey{"precision.master", master},
                             ClassKey{"precision.moments", moments}};

// What a key's value stands for.
Precision precision_named(std::string_view name) {
  if (name == "fp8") return {DType::e4m3, Scaling::current};
  for (const DType type : {DType::f64, DType::bf16, DType::f16})
    if (name == name_of(type)) return {type, Scaling::none};
  return {DType::f32, Scaling::none};
}

const Recipe& recipe_of(const io::Deck& deck) {
  std::string_view name = deck.text("precision.recipe");
  if (name == "auto") name = deck.text("precision.compute");
  if (name == "fp8") name = "te_current";
  for (const Recipe& recipe : recipes())
    if (recipe.name == name) return recipe;
  return recipe_named("fp32");  // the key is not sound, and another message says so
}

}  // namespace

std::span<const ClassKey> class_keys() { return keys; }

std::string_view compute_of(const Recipe& recipe) {
  return recipe.fp8() ? "fp8" : name_of(recipe[TensorClass::forward_operand].type);
}

PrecisionSettings precision_of(const Recipe& recipe) {
  PrecisionSettings precision;
  precision.recipe = recipe;
  precision.compute = recipe[TensorClass::activation].type;
  precision.accumulate = accumulator_of(precision.compute);
  precision.gradient_reduce = precision.accumulate;
  return precision;
}

PrecisionSettings read_precision(const io::Deck& deck) {
  Recipe recipe = recipe_of(deck);
  for (const ClassKey& key : keys) {
    const std::string& name = deck.text(key.key);
    if (name == "auto") continue;
    for (const TensorClass what : key.classes) recipe[what] = precision_named(name);
  }
  if (const std::string& rounding = deck.text("precision.rounding"); rounding != "auto")
    recipe.stochastic = rounding == "stochastic";
  PrecisionSettings precision = precision_of(recipe);
  precision.error_feedback = deck.boolean("precision.error_feedback");
  precision.first_bf16 = deck.integer("precision.first_bf16");
  precision.last_bf16 = deck.integer("precision.last_bf16");
  precision.amax_history = deck.integer("precision.amax_history");
  precision.margin = static_cast<int>(deck.integer("precision.margin"));
  precision.report_every = deck.integer("precision.report_every");
  precision.loss_scale = {deck.real("precision.loss_scale"),
                          deck.integer("precision.loss_scale_interval"),
                          deck.real("precision.loss_scale_floor")};
  return precision;
}

}  // namespace trireme::config
