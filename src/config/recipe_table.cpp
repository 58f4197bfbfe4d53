// The recipe of a run, as a table for people.
// SPDX-License-Identifier: Apache-2.0
#include "config/recipe_table.hpp"

#include "base/format.hpp"
#include "base/text_table.hpp"

namespace trireme::config {

std::string describe_recipe(const RunConfig& config) {
  const PrecisionSettings& precision = config.precision;
  const Recipe& recipe = precision.recipe;
  std::vector<TextRow> rows = {{"class", "type", "scaling", "bytes"}};
  const int moments = config.optimizer.rule().states();
  for (std::size_t i = 0; i < tensor_classes; ++i) {
    const auto what = static_cast<TensorClass>(i);
    if (what == TensorClass::moment1 && moments < 1) continue;
    if (what == TensorClass::moment2 && moments < 2) continue;
    const Precision& of = recipe[what];
    rows.push_back({std::string(name_of(what)), std::string(name_of(of.type)),
                    std::string(name_of(of.scaling)), std::to_string(size_of(of.type))});
  }
  std::string text = format("precision {}: {}; {} bytes a parameter\n", recipe.name,
                            recipe.doc, fixed(recipe.bytes_per_parameter(moments), 0)) +
                     text_table(rows, 3, 2);
  if (precision.error_feedback)
    text +=
        "  what rounding takes from gradients on the wire is added to the next ones\n";
  if (recipe.stochastic) text += "  master weights are rounded stochastically\n";
  if (recipe.fp8() && precision.first_bf16 + precision.last_bf16 > 0)
    text += format("  operands are bf16 in the first {} and the last {} blocks\n",
                   precision.first_bf16, precision.last_bf16);
  if (recipe.fp8())
    text += "  operands of the embedding, the head and attention itself are bf16\n";
  return text;
}

}  // namespace trireme::config
