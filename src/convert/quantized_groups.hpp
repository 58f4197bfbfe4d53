// Scales of groups of inputs, also of inputs that are not in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "convert/quantized_matrix.hpp"

namespace trireme::convert {

// The group of each input, where these are not one after the other; else empty. `stored`:
// I32 [inputs], or null; it joins `used`. Throws Error(bad_content) for a group that is
// none. group: inputs of one.
std::vector<std::int32_t> group_of_inputs(
    const QuantizedSearch& search, const QuantizedMatrix::Stored* stored,
    std::int64_t group, std::vector<const QuantizedMatrix::Stored*>& used);

// Scales, and zero points where there are any, of rows of blocks from the box's first on,
// for all groups of inputs.
struct GroupedScales {
  std::int64_t rows = 1, columns = 1, grid_columns = 1;
  std::vector<float> scales{}, zeros{};
  std::vector<std::int32_t> groups{};  // of each input of the whole matrix, or empty

  // Memory for the codes of the box, with its scales and zero points filled: one for each
  // element where groups are not in order.
  OwnedCodes owned(CodeType type, const Shape& begin, const Shape& extent,
                   bool has_zeros) const;
  // Where groups are in order.
  ScaleLayout layout(const Shape& begin) const;
};

}  // namespace trireme::convert
