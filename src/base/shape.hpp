// Shape: up to four extents, row-major.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>

#include "base/error.hpp"

namespace trireme {

class Shape {
 public:
  static constexpr int max_rank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    require(static_cast<int>(extents.size()) <= max_rank, "a shape has at most {} dims",
            max_rank);
    for (const auto extent : extents)
      extents_[static_cast<std::size_t>(rank_++)] = extent;
  }

  int rank() const { return rank_; }
  // Extent of dim `i`; a negative `i` counts from the last dim.
  std::int64_t operator[](int i) const { return extents_[index(i)]; }
  std::int64_t& operator[](int i) { return extents_[index(i)]; }

  // Product of the extents; 1 for rank 0.
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= extents_[static_cast<std::size_t>(i)];
    return product;
  }

  bool operator==(const Shape&) const = default;

  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    out << '[';
    for (int i = 0; i < shape.rank(); ++i) out << (i ? ", " : "") << shape[i];
    return out << ']';
  }

 private:
  std::size_t index(int i) const {
    const int at = i < 0 ? i + rank_ : i;
    require(at >= 0 && at < rank_, "dim {} of a shape of rank {}", i, rank_);
    return static_cast<std::size_t>(at);
  }

  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

}  // namespace trireme
