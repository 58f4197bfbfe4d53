// A few layers of a model that stand for all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/run_config.hpp"

namespace trireme::plan {

// Layers in their order, and for each layer of the model the place among these of one
// that does the same.
struct KeptLayers {
  std::vector<std::int64_t> layers;
  std::vector<std::size_t> place;
};

// The first and the last layer, which have embedding and head, and of the others one of
// each kind; all where that saves none, or where patterns of optimizer.groups or adapter
// name layers by number.
KeptLayers ends_and_kinds(const config::RunConfig& config);

// About four layers, the first and the last among them, of each kind as large a part as
// the model has, at least one; three where all are alike, and all where there are no
// more, or where patterns name layers.
std::vector<std::int64_t> in_proportion(const config::RunConfig& config);

// The same model with these of its layers alone.
void keep_layers(config::RunConfig& config, const std::vector<std::int64_t>& layers);

}  // namespace trireme::plan
