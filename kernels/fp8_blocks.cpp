// FP8 by 128 x 128 blocks of a tensor: checks, then the stream's device does it.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8_blocks.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(amax_of_blocks);
TRIREME_BACK_ENDS(encode_blocks);
TRIREME_BACK_ENDS(decode_blocks);

namespace {

ProfileFamily family("quantize");

// One scale, or amax, for each block down to the run's last.
void check_blocks(const Checks& check, Argument blocks, const TensorRun& run,
                  std::int64_t elements) {
  check.tensor(blocks, DType::f32, {blocks.view.elements()});
  require(elements == 0 || run.block(elements - 1) < blocks.view.elements(),
          "{} are {}, fewer than the blocks of the run", blocks.name,
          blocks.view.elements());
}

}  // namespace

void amax_of_blocks(Stream& stream, const TensorView& x_N, const TensorRun& run,
                    const TensorView& amaxes_S) {
  const Checks check("amax_of_blocks", stream);
  check.tensor({"x", x_N}, DType::f32, {x_N.elements()});
  check_blocks(check, {"amaxes", amaxes_S}, run, x_N.elements());
  run_kernel<host::amax_of_blocks, cuda::amax_of_blocks>(family, stream, x_N, run,
                                                         amaxes_S);
}

void encode_blocks(Stream& stream, const TensorView& x_N, const TensorRun& run,
                   Fp8Format format, const TensorView& scales_S,
                   const TensorView& codes_N) {
  const Checks check("encode_blocks", stream);
  check.tensor({"x", x_N}, DType::f32, {x_N.elements()});
  check.tensor({"codes", codes_N}, DType::u8, x_N.shape());
  check_blocks(check, {"scales", scales_S}, run, x_N.elements());
  run_kernel<host::encode_blocks, cuda::encode_blocks>(family, stream, x_N, run, format,
                                                       scales_S, codes_N);
}

void decode_blocks(Stream& stream, const TensorView& codes_N, const TensorRun& run,
                   Fp8Format format, const TensorView& scales_S, const TensorView& y_N) {
  const Checks check("decode_blocks", stream);
  check.floating({"y", y_N});
  check.tensor({"codes", codes_N}, DType::u8, {y_N.elements()});
  check_blocks(check, {"scales", scales_S}, run, y_N.elements());
  run_kernel<host::decode_blocks, cuda::decode_blocks>(family, stream, codes_N, run,
                                                       format, scales_S, y_N);
}

}  // namespace trireme::kernels
