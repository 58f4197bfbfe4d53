// The features that kernels of GPUs lack.
// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu_misfit.hpp"

#include "base/format.hpp"

namespace trireme::engine {

std::string gpu_misfit(const config::RunConfig& config) {
  if (config.adapter.matrices.dora)
    return "adapter.dora = true: lengths of rows are made on CPUs alone: write "
           "adapter.dora = false, or run.device = \"cpu\"";
  if (config.health.rerun_every > 0)
    return format(
        "health.rerun_every = {}: steps are computed twice on CPUs alone: write "
        "health.rerun_every = 0, or run.device = \"cpu\"",
        config.health.rerun_every);
  const Recipe& recipe = config.precision.recipe;
  if (recipe[TensorClass::forward_operand].scaling == Scaling::mx)
    return format(
        "precision.recipe = \"{}\": scales of 32 numbers are made on CPUs alone: write "
        "precision.recipe = \"te_blocks\", or run.device = \"cpu\"",
        recipe.name);
  return {};
}

}  // namespace trireme::engine
