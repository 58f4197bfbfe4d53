// Codes of 4 and 8 bits in blocks with a largest magnitude each.
// SPDX-License-Identifier: Apache-2.0
// A block is so many elements of a tensor in order, across the ends of rows; the last may
// be shorter. Source: Dettmers et al., "QLoRA", 2023.
#pragma once

#include "base/code_book.hpp"
#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// Elements of a block of weights, and of a block of what is quantized to 8 bits.
inline constexpr std::int64_t four_bit_block = 64, dynamic_block = 256;

constexpr std::int64_t four_bit_bytes(std::int64_t elements) {
  return (elements + 1) / 2;
}

// codes and absmax of x, bit for bit those of bitsandbytes' quantize_4bit on a host: the
// number nearest to x / absmax in f32, where whole blocks are multiplied by 1 / absmax.
//
// x_N       f64, f32, bf16 or f16, dense
// codes     u8 [(N + 1) / 2], written: two codes a byte, the first in the high bits; the
//           one that no element has is that of 0
// absmax_B  f32 [N / block, rounded up], written; NaN of a block with a NaN
void encode_four_bits(Stream& stream, const TensorView& x_N, FourBitType type,
                      std::int64_t block, const TensorView& codes,
                      const TensorView& absmax_B);

// y = number of the code * absmax in f32, rounded to y's type; y_N dense, floating.
void decode_four_bits(Stream& stream, const TensorView& codes, const TensorView& absmax_B,
                      FourBitType type, std::int64_t block, const TensorView& y_N);

// The same with a byte for each element and the dynamic type. x_N and y_N f32, dense;
// codes_N u8. A number in the middle of two goes to the lower code.
void encode_dynamic(Stream& stream, const TensorView& x_N, DynamicType type,
                    std::int64_t block, const TensorView& codes_N,
                    const TensorView& absmax_B);
void decode_dynamic(Stream& stream, const TensorView& codes_N, const TensorView& absmax_B,
                    DynamicType type, std::int64_t block, const TensorView& y_N);

// Double quantization: the absmax of blocks, less their mean, in the signed dynamic type
// with blocks of 256.
//
// absmax_B  f32 [B]; encode_absmax() leaves in it what the codes stand for
// codes_B   u8 [B], written; nested_C  f32 [B / 256, rounded up], written
// offset_1  f32 [1], written: the mean, summed in double
void encode_absmax(Stream& stream, const TensorView& absmax_B, const TensorView& codes_B,
                   const TensorView& nested_C, const TensorView& offset_1);
// absmax_B = number of the code * nested + offset, product and sum rounded each.
void decode_absmax(Stream& stream, const TensorView& codes_B, const TensorView& nested_C,
                   const TensorView& offset_1, const TensorView& absmax_B);

}  // namespace trireme::kernels
