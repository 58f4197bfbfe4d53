// Boxes of tensors, each a first element and extents: where one lies in the whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/shape.hpp"

namespace trireme {

// Of `rank` extents, all 0. Throws Error(internal) beyond Shape::max_rank.
Shape shape_of_rank(int rank);
// `shape` with all extents 0: the first element of all that has it.
Shape origin_of(const Shape& shape);

// Does the box lie in `whole`? One of another rank does not.
bool is_inside(const Shape& whole, const Shape& begin, const Shape& extent);

// Elements of the whole before a box whose elements follow each other in it; -1 for
// other boxes.
std::int64_t place_in_rows(const Shape& whole, const Shape& begin, const Shape& extent);

}  // namespace trireme
