// Numbers of matrices of codes: checks, then the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/coded_matrix.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

namespace host {
decltype(kernels::decode_matrix) decode_matrix;
}

namespace {
ProfileFamily family("decode weights");
}

void decode_matrix(Stream& stream, const CodedMatrix& matrix, const TensorView& y_NK) {
  const Checks check("decode_matrix", stream);
  check.matrix({"numbers", y_NK});
  require(y_NK.shape() == matrix.shape, "decode_matrix: {} numbers of a matrix {}",
          y_NK.shape(), matrix.shape);
  if (stream.device().is_meta()) return;
  require(stream.device().is_host() && matrix.codes.device().is_host(),
          "decode_matrix: codes are decoded on hosts");
  const ProfileScope scope(family);
  host::decode_matrix(stream, matrix, y_NK);
}

}  // namespace trireme::kernels
