// Rotary position embedding: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(rope);
TRIREME_BACK_ENDS(rope_table);

namespace {
ProfileFamily family("rope");
}  // namespace

void rope(Stream& stream, const TensorView& x, std::int64_t heads,
          const TensorView& positions_T, const TensorView& cos_sin_PK,
          Direction direction) {
  const Checks check("rope", stream);
  check.matrix({"x", x});
  check.matrix({"cos_sin", cos_sin_PK});
  const auto K = cos_sin_PK.dim(1);
  require(K % 2 == 0, "rope: the head width {} must be even", K);
  check.tensor({"cos_sin", cos_sin_PK}, accumulator_of(x.dtype()), cos_sin_PK.shape());
  check.tensor({"x", x}, x.dtype(), {x.dim(0), heads * K});
  check.tensor({"positions", positions_T}, DType::i32, {x.dim(0)});
  run_kernel<host::rope, cuda::rope>(family, stream, x, heads, positions_T, cos_sin_PK,
                                     direction);
}

void rope_table(Stream& stream, double theta, const TensorView& cos_sin_PK,
                const RopeScaling& scaling) {
  Checks("rope_table", stream).matrix({"cos_sin", cos_sin_PK});
  require(accumulator_of(cos_sin_PK.dtype()) == cos_sin_PK.dtype(),
          "rope_table: the table is {}, but fp32 or fp64 was expected",
          name_of(cos_sin_PK.dtype()));
  require(cos_sin_PK.dim(1) % 2 == 0, "rope_table: the head width {} must be even",
          cos_sin_PK.dim(1));
  run_kernel<host::rope_table, cuda::rope_table>(family, stream, theta, cos_sin_PK,
                                                 scaling);
}

}  // namespace trireme::kernels
