// Roundings: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rounding.hpp"

#include "base/has_cuda.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/rounding.hpp"
#include "kernels/kokkos/rounding.hpp"
#include "kernels/profile.hpp"

namespace trireme::kernels {
namespace {

ProfileFamily family("rounding");

void check_numbers(const char* name, const Stream& stream, const TensorView& x) {
  const Checks check(name, stream);
  check.tensor({"x", x}, DType::f32, x.shape());
  check.dense({"x", x});
}

}  // namespace

void round_stochastic(Stream& stream, const TensorView& x_N, const TensorRun& run,
                      DType type, float scale, const RoundingKey& key) {
  check_numbers("round_stochastic", stream, x_N);
  require(size_of(type) <= 2, "round_stochastic: {} is not narrower than f32",
          name_of(type));
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda())
      return cuda::round_stochastic(stream, x_N, run, type, scale, key);
  }
  host::round_stochastic(x_N, run, type, scale, key);
}

void square(Stream& stream, const TensorView& x) {
  check_numbers("square", stream, x);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::square(stream, x);
  }
  host::square(x);
}

void square_root(Stream& stream, const TensorView& x, float least) {
  check_numbers("square_root", stream, x);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return cuda::square_root(stream, x, least);
  }
  host::square_root(x, least);
}

}  // namespace trireme::kernels
