// Boxes of tensors, checked and counted.
// SPDX-License-Identifier: Apache-2.0
#include "base/boxes.hpp"

#include <array>

namespace trireme {

Shape shape_of_rank(int rank) {
  const std::array<Shape, Shape::max_rank + 1> of_rank = {
      Shape{}, Shape{0}, Shape{0, 0}, Shape{0, 0, 0}, Shape{0, 0, 0, 0}};
  require(rank >= 0 && rank <= Shape::max_rank, "a shape of {} dims", rank);
  return of_rank[static_cast<std::size_t>(rank)];
}

Shape origin_of(const Shape& shape) { return shape_of_rank(shape.rank()); }

bool is_inside(const Shape& whole, const Shape& begin, const Shape& extent) {
  if (begin.rank() != whole.rank() || extent.rank() != whole.rank()) return false;
  for (int i = 0; i < whole.rank(); ++i)
    if (begin[i] < 0 || extent[i] < 0 || begin[i] > whole[i] - extent[i]) return false;
  return true;
}

std::int64_t place_in_rows(const Shape& whole, const Shape& begin, const Shape& extent) {
  int dim = 0;
  while (dim + 1 < whole.rank() && extent[dim] == 1) ++dim;
  std::int64_t place = 0;
  for (int i = 0; i < whole.rank(); ++i) {
    if (i > dim && extent[i] != whole[i]) return -1;
    place = place * whole[i] + begin[i];
  }
  return place;
}

}  // namespace trireme
