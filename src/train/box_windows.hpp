// Tensors that pass through memory a window at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/row_windows.hpp"
#include "base/tensor_view.hpp"

namespace trireme::train {

// A part of a tensor, or of a box of one.
struct BoxWindow {
  Shape begin, extent;
};

// All of `shape`, in the order of its elements, which follow each other in each window:
// at most `most` of them, 1 or more.
std::vector<BoxWindow> windows_of(const Shape& shape, std::int64_t most);

// Of a matrix or a vector any window, of other dense tensors one whose elements follow
// each other.
TensorView part_of(const TensorView& whole, const BoxWindow& window);

// What two windows of a tensor have in common; no elements: nothing.
BoxWindow common_part(const BoxWindow& a, const BoxWindow& b);

// `inner`, which lies in `outer`, as a part of that.
BoxWindow inside(const BoxWindow& inner, const BoxWindow& outer);

}  // namespace trireme::train
