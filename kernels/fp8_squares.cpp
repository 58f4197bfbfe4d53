// FP8 by squares of a tensor: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8_squares.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(amax_of_squares);
TRIREME_BACK_ENDS(encode_squares);
TRIREME_BACK_ENDS(decode_squares);

namespace {

ProfileFamily family("quantize");

// One scale, or amax, for each square down to the run's last.
void check_squares(const Checks& check, Argument squares, const TensorRun& run,
                   std::int64_t elements) {
  check.tensor(squares, DType::f32, {squares.view.elements()});
  require(elements == 0 || run.square(elements - 1) < squares.view.elements(),
          "{} are {}, fewer than the squares of the run", squares.name,
          squares.view.elements());
}

}  // namespace

void amax_of_squares(Stream& stream, const TensorView& x_N, const TensorRun& run,
                     const TensorView& amaxes_S) {
  const Checks check("amax_of_squares", stream);
  check.tensor({"x", x_N}, DType::f32, {x_N.elements()});
  check_squares(check, {"amaxes", amaxes_S}, run, x_N.elements());
  run_kernel<host::amax_of_squares, cuda::amax_of_squares>(family, stream, x_N, run,
                                                           amaxes_S);
}

void encode_squares(Stream& stream, const TensorView& x_N, const TensorRun& run,
                    Fp8Format format, const TensorView& scales_S,
                    const TensorView& codes_N) {
  const Checks check("encode_squares", stream);
  check.tensor({"x", x_N}, DType::f32, {x_N.elements()});
  check.tensor({"codes", codes_N}, DType::u8, x_N.shape());
  check_squares(check, {"scales", scales_S}, run, x_N.elements());
  run_kernel<host::encode_squares, cuda::encode_squares>(family, stream, x_N, run, format,
                                                         scales_S, codes_N);
}

void decode_squares(Stream& stream, const TensorView& codes_N, const TensorRun& run,
                    Fp8Format format, const TensorView& scales_S, const TensorView& y_N) {
  const Checks check("decode_squares", stream);
  check.floating({"y", y_N});
  check.tensor({"codes", codes_N}, DType::u8, {y_N.elements()});
  check_squares(check, {"scales", scales_S}, run, y_N.elements());
  run_kernel<host::decode_squares, cuda::decode_squares>(family, stream, codes_N, run,
                                                         format, scales_S, y_N);
}

}  // namespace trireme::kernels
