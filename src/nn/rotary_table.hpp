// RotaryTable: cosines and sines of the positions of one kind of layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/tensor_view.hpp"

namespace trireme::nn {

// Tables are made by kernels::rope_table().
struct RotaryTable {
  TensorView cos_sin_PR{};
  // Of texts of more than `original` positions, where the length of a text decides
  // (dynamic, longrope) and both may come; else empty.
  TensorView beyond_PR{};
  std::int64_t original = 0;

  RotaryTable() = default;
  RotaryTable(const TensorView& cos_sin) : cos_sin_PR(cos_sin) {}  // NOLINT: one table
  RotaryTable(const TensorView& within, const TensorView& beyond, std::int64_t positions)
      : cos_sin_PR(within), beyond_PR(beyond), original(positions) {}

  const TensorView& of_text(std::int64_t length) const {
    return !beyond_PR.empty() && length > original ? beyond_PR : cos_sin_PR;
  }
};

}  // namespace trireme::nn
