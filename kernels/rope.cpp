// Rotary position embedding: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope.hpp"

#include <algorithm>
#include <vector>

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(rope);
TRIREME_BACK_ENDS(rope_angles);

namespace {
ProfileFamily family("rope");
}  // namespace

void rope(Stream& stream, const TensorView& x, const RotaryHeads& heads,
          const TensorView& positions_T, const TensorView& cos_sin_PR,
          Direction direction) {
  const Checks check("rope", stream);
  check.matrix({"x", x});
  check.matrix({"cos_sin", cos_sin_PR});
  const auto R = cos_sin_PR.dim(1);
  require(R % 2 == 0, "rope: the width {} that turns must be even", R);
  require(heads.heads > 0 && x.dim(1) % heads.heads == 0,
          "rope: {} heads in rows of {} elements", heads.heads, x.dim(1));
  const auto K = x.dim(1) / heads.heads;
  require(heads.first >= 0 && heads.first + R <= K,
          "rope: numbers [{}, {}) of heads of width {}", heads.first, heads.first + R, K);
  check.tensor({"cos_sin", cos_sin_PR}, accumulator_of(x.dtype()), cos_sin_PR.shape());
  check.tensor({"positions", positions_T}, DType::i32, {x.dim(0)});
  run_kernel<host::rope, cuda::rope>(family, stream, x, heads, positions_T, cos_sin_PR,
                                     direction);
}

namespace {

std::vector<double> frequencies_of(double theta, const TensorView& cos_sin_PR,
                                   const RopeScaling& scaling, std::int64_t length) {
  const auto half = static_cast<std::size_t>(cos_sin_PR.dim(1) / 2);
  if (scaling.kind == RopeScalingKind::longrope)
    require(scaling.short_divisors.size() == half && scaling.long_divisors.size() == half,
            "rope_table: {} and {} divisors for {} pairs", scaling.short_divisors.size(),
            scaling.long_divisors.size(), half);
  std::vector<double> frequencies;
  for (std::size_t pair = 0; pair < half; ++pair)
    frequencies.push_back(math::rope_frequency(static_cast<std::int64_t>(pair),
                                               static_cast<std::int64_t>(half), theta,
                                               scaling, length));
  return frequencies;
}

}  // namespace

void rope_table(Stream& stream, double theta, const TensorView& cos_sin_PR,
                const RopeScaling& scaling, std::int64_t length) {
  rope_angles(stream, frequencies_of(theta, cos_sin_PR, scaling, length),
              scaling.attention_factor, cos_sin_PR);
}

void rope_table_of_ends(Stream& stream, double theta, const TensorView& cos_sin_PR,
                        const RopeScaling& scaling) {
  const std::int64_t P = cos_sin_PR.dim(0);
  const std::int64_t alike = std::min(P, static_cast<std::int64_t>(scaling.original));
  if (alike > 0) rope_table(stream, theta, cos_sin_PR.rows(0, alike), scaling, alike);
  for (std::int64_t p = alike; p < P; ++p)
    rope_angles(stream, frequencies_of(theta, cos_sin_PR, scaling, p + 1),
                scaling.attention_factor, cos_sin_PR.rows(p, 1), p);
}

void rope_angles(Stream& stream, std::span<const double> frequencies, double factor,
                 const TensorView& cos_sin_PR, std::int64_t first) {
  Checks("rope_table", stream).matrix({"cos_sin", cos_sin_PR});
  require(accumulator_of(cos_sin_PR.dtype()) == cos_sin_PR.dtype(),
          "rope_table: the table is {}, but fp32 or fp64 was expected",
          name_of(cos_sin_PR.dtype()));
  require(cos_sin_PR.dim(1) == 2 * static_cast<std::int64_t>(frequencies.size()),
          "rope_table: the width {} must be twice the {} frequencies", cos_sin_PR.dim(1),
          frequencies.size());
  run_kernel<host::rope_angles, cuda::rope_angles>(family, stream, frequencies, factor,
                                                   cos_sin_PR, first);
}

}  // namespace trireme::kernels
