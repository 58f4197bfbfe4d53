// Codes of numbers: the arithmetic of each way to make them, for files and for memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "base/dtype.hpp"

namespace trireme::convert {

// NF4 of a block of `count` numbers, a byte for each code; whole: it is no rest behind
// the last whole block. Returns the largest magnitude, as it is kept.
float nf4_codes(const float* numbers, std::int64_t count, bool whole,
                std::uint8_t* codes);

// LLM.int8() of a row: numbers in fp16, by 1 / max times 127 in fp32, ties to even.
// Returns the largest magnitude. Throws Error(bad_content), with the tensor's name, for
// what fp16 does not hold.
float int8_codes(std::string_view tensor, const float* numbers, std::int64_t count,
                 std::uint8_t* codes);

// E4M3 of a row. Returns its scale, which is a number of `type`.
float e4m3_codes(const float* numbers, std::int64_t count, DType type,
                 std::uint8_t* codes);

}  // namespace trireme::convert
