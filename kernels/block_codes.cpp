// Codes of 4 and 8 bits in blocks: checks, then the device of the stream.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/block_codes.hpp"

#include "base/split.hpp"
#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(encode_four_bits);
TRIREME_BACK_ENDS(decode_four_bits);
TRIREME_BACK_ENDS(encode_dynamic);
TRIREME_BACK_ENDS(decode_dynamic);
TRIREME_BACK_ENDS(encode_absmax);
TRIREME_BACK_ENDS(decode_absmax);

namespace {

ProfileFamily family("block codes");

void check_blocks(const Checks& check, const TensorView& absmax_B, std::int64_t block,
                  std::int64_t elements) {
  require(block >= 2 && block % 2 == 0, "a block of {} elements has no whole bytes",
          block);
  check.tensor({"absmax", absmax_B}, DType::f32, {divide_up(elements, block)});
  check.dense({"absmax", absmax_B});
}

void check_four_bits(const Checks& check, const TensorView& numbers,
                     const TensorView& codes, const TensorView& absmax_B,
                     std::int64_t block) {
  check.floating({"numbers", numbers});
  check.dense({"numbers", numbers});
  check.tensor({"codes", codes}, DType::u8, {four_bit_bytes(numbers.elements())});
  check_blocks(check, absmax_B, block, numbers.elements());
}

void check_dynamic(const Checks& check, const TensorView& numbers,
                   const TensorView& codes_N, const TensorView& absmax_B,
                   std::int64_t block) {
  check.tensor({"numbers", numbers}, DType::f32, {numbers.elements()});
  check.tensor({"codes", codes_N}, DType::u8, {numbers.elements()});
  check_blocks(check, absmax_B, block, numbers.elements());
}

void check_absmax(const Checks& check, const TensorView& absmax_B,
                  const TensorView& codes_B, const TensorView& nested_C,
                  const TensorView& offset_1) {
  check_dynamic(check, absmax_B, codes_B, nested_C, dynamic_block);
  check.tensor({"offset", offset_1}, DType::f32, {1});
}

}  // namespace

void encode_four_bits(Stream& stream, const TensorView& x_N, FourBitType type,
                      std::int64_t block, const TensorView& codes,
                      const TensorView& absmax_B) {
  check_four_bits(Checks("encode_four_bits", stream), x_N, codes, absmax_B, block);
  run_kernel<host::encode_four_bits, cuda::encode_four_bits>(family, stream, x_N, type,
                                                             block, codes, absmax_B);
}

void decode_four_bits(Stream& stream, const TensorView& codes, const TensorView& absmax_B,
                      FourBitType type, std::int64_t block, const TensorView& y_N) {
  check_four_bits(Checks("decode_four_bits", stream), y_N, codes, absmax_B, block);
  run_kernel<host::decode_four_bits, cuda::decode_four_bits>(family, stream, codes,
                                                             absmax_B, type, block, y_N);
}

void encode_dynamic(Stream& stream, const TensorView& x_N, DynamicType type,
                    std::int64_t block, const TensorView& codes_N,
                    const TensorView& absmax_B) {
  check_dynamic(Checks("encode_dynamic", stream), x_N, codes_N, absmax_B, block);
  run_kernel<host::encode_dynamic, cuda::encode_dynamic>(family, stream, x_N, type, block,
                                                         codes_N, absmax_B);
}

void decode_dynamic(Stream& stream, const TensorView& codes_N, const TensorView& absmax_B,
                    DynamicType type, std::int64_t block, const TensorView& y_N) {
  check_dynamic(Checks("decode_dynamic", stream), y_N, codes_N, absmax_B, block);
  run_kernel<host::decode_dynamic, cuda::decode_dynamic>(family, stream, codes_N,
                                                         absmax_B, type, block, y_N);
}

void encode_absmax(Stream& stream, const TensorView& absmax_B, const TensorView& codes_B,
                   const TensorView& nested_C, const TensorView& offset_1) {
  check_absmax(Checks("encode_absmax", stream), absmax_B, codes_B, nested_C, offset_1);
  run_kernel<host::encode_absmax, cuda::encode_absmax>(family, stream, absmax_B, codes_B,
                                                       nested_C, offset_1);
}

void decode_absmax(Stream& stream, const TensorView& codes_B, const TensorView& nested_C,
                   const TensorView& offset_1, const TensorView& absmax_B) {
  check_absmax(Checks("decode_absmax", stream), absmax_B, codes_B, nested_C, offset_1);
  run_kernel<host::decode_absmax, cuda::decode_absmax>(family, stream, codes_B, nested_C,
                                                       offset_1, absmax_B);
}

}  // namespace trireme::kernels
