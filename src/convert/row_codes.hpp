// Codes of numbers: the arithmetic of each way to make them, for files and for memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/code_book.hpp"
#include "base/dtype.hpp"

namespace trireme::convert {

// The largest magnitude.
float largest_of(const float* numbers, std::int64_t count);

// NF4 or FP4 of a block of `count` numbers, a byte for each code; whole: it is no rest
// behind the last whole block. Returns the largest magnitude, as it is kept.
float four_bit_codes(FourBitType type, const float* numbers, std::int64_t count,
                     bool whole, std::uint8_t* codes);

// Double quantization: largest magnitudes, less their mean (summed in double), in the
// signed dynamic type with blocks of 256. Writes as many codes, and the largest magnitude
// of each block of them; returns the mean.
inline constexpr std::int64_t nested_block = 256;
float absmax_codes(std::span<const float> absmax, std::uint8_t* codes, float* nested);

// LLM.int8() of a row: numbers in fp16, by 1 / max times 127 in fp32, ties to even.
// Returns the largest magnitude. Throws Error(bad_content), with the tensor's name, for
// what fp16 does not hold.
float int8_codes(std::string_view tensor, const float* numbers, std::int64_t count,
                 std::uint8_t* codes);

// E4M3 of a row. Scale and quotients are rounded to `type`, that of the numbers, in which
// compressed-tensors computes. Returns the scale.
float e4m3_codes(const float* numbers, std::int64_t count, DType type,
                 std::uint8_t* codes);

// E4M3 of a block: what brings its largest magnitude to 448, and what brings that back.
struct Fp8Scale {
  float inverse = 1, stored = 1;
  std::uint8_t code(float number) const;
};
Fp8Scale fp8_scale(float absmax);

// Integers from -8 to 7 of a group, ties to even. Scale and quotients are rounded to
// `type`, that of the numbers, in which compressed-tensors computes. Returns the scale.
float int4_codes(const float* numbers, std::int64_t count, DType type,
                 std::int8_t* codes);

}  // namespace trireme::convert
