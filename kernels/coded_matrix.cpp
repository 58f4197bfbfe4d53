// Numbers of matrices of codes: checks, then the device of the stream.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/coded_matrix.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(decode_matrix);

namespace {
ProfileFamily family("decode weights");
}

void decode_matrix(Stream& stream, const CodedMatrix& matrix, const TensorView& y_NK) {
  const Checks check("decode_matrix", stream);
  check.matrix({"numbers", y_NK});
  require(y_NK.shape() == matrix.shape, "decode_matrix: {} numbers of a matrix {}",
          y_NK.shape(), matrix.shape);
  if (stream.device().is_meta()) return;
  require(matrix.codes.device() == stream.device(),
          "decode_matrix: codes of a matrix {} are not on the stream's device",
          matrix.shape);
  const ProfileScope scope(family);
  run_kernel<host::decode_matrix, cuda::decode_matrix>(stream, matrix, y_NK);
}

}  // namespace trireme::kernels
