// FP8 by squares of a tensor: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8_squares.hpp"

#include "base/has_cuda.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/low_precision/fp8_squares.hpp"
#include "kernels/host/fp8_squares.hpp"
#include "kernels/runtime/profile.hpp"

namespace trireme::kernels {
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
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda())
      return cuda::amax_of_squares(stream, x_N, run, amaxes_S);
  }
  host::amax_of_squares(x_N, run, amaxes_S);
}

void encode_squares(Stream& stream, const TensorView& x_N, const TensorRun& run,
                    Fp8Format format, const TensorView& scales_S,
                    const TensorView& codes_N) {
  const Checks check("encode_squares", stream);
  check.tensor({"x", x_N}, DType::f32, {x_N.elements()});
  check.tensor({"codes", codes_N}, DType::u8, x_N.shape());
  check_squares(check, {"scales", scales_S}, run, x_N.elements());
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda())
      return cuda::encode_squares(stream, x_N, run, format, scales_S, codes_N);
  }
  host::encode_squares(x_N, run, format, scales_S, codes_N);
}

void decode_squares(Stream& stream, const TensorView& codes_N, const TensorRun& run,
                    Fp8Format format, const TensorView& scales_S, const TensorView& y_N) {
  const Checks check("decode_squares", stream);
  check.floating({"y", y_N});
  check.tensor({"codes", codes_N}, DType::u8, {y_N.elements()});
  check_squares(check, {"scales", scales_S}, run, y_N.elements());
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda())
      return cuda::decode_squares(stream, codes_N, run, format, scales_S, y_N);
  }
  host::decode_squares(codes_N, run, format, scales_S, y_N);
}

}  // namespace trireme::kernels
