// Reading the deck's precision section.
// SPDX-License-Identifier: Apache-2.0
#include "config/precision.hpp"

#include <array>

#include "config/keys.hpp"

namespace trireme::config {
namespace {

constexpr std::array weights = {TensorClass::weight, TensorClass::weight_traffic};
constexpr std::array traffic = {TensorClass::gradient_traffic};
constexpr std::array master = {TensorClass::master};
constexpr std::array moments = {TensorClass::moment1, TensorClass::moment2};
constexpr std::array keys = {ClassKey{key::precision.weights, weights},
                             ClassKey{key::precision.gradient_reduce, traffic},
                             ClassKey{key::precision.master, master},
                             ClassKey{key::precision.moments, moments}};

const Recipe& named_recipe(const io::Deck& deck) {
  const Recipe* named = deck[key::precision.recipe];
  return named != nullptr ? *named : *deck[key::precision.compute];
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

Recipe read_recipe(const io::Deck& deck) {
  Recipe recipe = named_recipe(deck);
  for (const ClassKey& row : class_keys()) {
    const std::optional<Precision> wanted = deck[row.key];
    if (!wanted) continue;
    for (const TensorClass what : row.classes) recipe[what] = *wanted;
  }
  if (const auto rounding = deck[key::precision.rounding])
    recipe.stochastic = *rounding == Rounding::stochastic;
  return recipe;
}

}  // namespace trireme::config
