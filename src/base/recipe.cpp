// Recipes: names of their parts, and what a recipe takes.
// SPDX-License-Identifier: Apache-2.0
#include "base/recipe.hpp"

#include <string>

#include "base/recipe_rows.hpp"

namespace trireme {

std::string_view name_of(TensorClass what) {
  constexpr std::array<std::string_view, tensor_classes> names = {
      "activations",    "forward operands", "backward operands", "weights",
      "master weights", "gradients",        "gradient sums",     "first moments",
      "second moments", "gradient traffic", "weight traffic",    "pipeline traffic",
      "tensor traffic"};
  return names[static_cast<std::size_t>(what)];
}

std::string_view name_of(Scaling scaling) {
  constexpr std::array<std::string_view, 6> names = {"none",   "delayed", "current",
                                                     "blocks", "mx",      "dynamic"};
  return names[static_cast<std::size_t>(scaling)];
}

bool Recipe::fp8() const { return is_fp8((*this)[TensorClass::forward_operand].type); }

double Recipe::bytes_per_parameter(int moments) const {
  const auto size = [&](TensorClass what) {
    return static_cast<double>(size_of((*this)[what].type));
  };
  const auto same = [&](TensorClass a, TensorClass b) {
    return (*this)[a] == (*this)[b];
  };
  double bytes = size(TensorClass::weight) + size(TensorClass::gradient);
  if (moments > 0) bytes += size(TensorClass::moment1);
  if (moments > 1) bytes += size(TensorClass::moment2);
  if (!same(TensorClass::weight, TensorClass::master)) bytes += size(TensorClass::master);
  if (!same(TensorClass::gradient, TensorClass::gradient_sum))
    bytes += size(TensorClass::gradient_sum);
  return bytes;
}

std::span<const Recipe> recipes() { return recipe_rows; }

const Recipe& recipe_named(std::string_view name) {
  std::string all;
  for (const Recipe& recipe : recipe_rows) {
    if (recipe.name == name) return recipe;
    all += (all.empty() ? "" : ", ") + std::string(recipe.name);
  }
  fail(Status::bad_content, "there is no recipe {}; there are {}", name, all);
}

}  // namespace trireme
