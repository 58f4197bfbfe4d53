// WeightCodes: the codes of a weight that products read where it has no numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/coded_matrix.hpp"

namespace trireme {

struct WeightCodes {
  std::vector<PlacedCodes> boxes;  // that make up the weight; none on the meta device
  // Memory for its numbers, in the type of products. Other weights use it too: what lies
  // in it is of no meaning between products.
  TensorView numbers{};
};

}  // namespace trireme
