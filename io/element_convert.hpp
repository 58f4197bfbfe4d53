// Elements of one type as elements of another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/dtype.hpp"
#include "base/shape.hpp"

namespace trireme::io {

// Whether elements are integers. Codes of FP8 are not.
bool is_integer(DType dtype);

// Do stored elements of one type become elements of the other? Floats become floats,
// integers integers; codes of FP8 mean nothing without their scales and stay what they
// are.
bool converts(DType from, DType to);

// The `count` elements at `to` = those at `from`: floats rounded to nearest, ties to even
// (fp64 goes to 16 bits by way of fp32), integers clamped. Neither need be aligned.
// Throws Error(internal) unless converts(from, to).
void convert_elements(const void* from, DType from_type, void* to, DType to_type,
                      std::int64_t count);

// Bytes of a tensor; none when an extent is negative or there are more than 2^62 of them.
std::optional<std::int64_t> bytes_of(const Shape& shape, DType dtype);

}  // namespace trireme::io
