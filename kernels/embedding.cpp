// Table lookup and its gradient: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.hpp"

#include "kernels/checks.hpp"
#include "kernels/cuda/embedding/demand.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/runtime/plan_working_memory.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(embedding);
TRIREME_BACK_ENDS(embedding_backward);

namespace {
ProfileFamily family("embedding");
}  // namespace

void embedding(Stream& stream, const TensorView& index_T, const TensorView& table_RD,
               std::int64_t first, Accumulate accumulate, const TensorView& y_TD) {
  const Checks check("embedding", stream);
  check.matrix({"y", y_TD});
  check.matrix({"table", table_RD});
  check.tensor({"table", table_RD}, y_TD.dtype(), {table_RD.dim(0), y_TD.dim(1)});
  check.tensor({"index", index_T}, DType::i32, {y_TD.dim(0)});
  run_kernel<host::embedding, cuda::embedding>(family, stream, index_T, table_RD, first,
                                               accumulate, y_TD);
}

void embedding_backward(Stream& stream, const TensorView& dy_TD,
                        const TensorView& index_T, std::int64_t first,
                        const TensorView& dtable_RD) {
  const Checks check("embedding_backward", stream);
  check.matrix({"dy", dy_TD});
  check.matrix({"dtable", dtable_RD});
  check.tensor({"dtable", dtable_RD}, accumulator_of(dy_TD.dtype()),
               {dtable_RD.dim(0), dy_TD.dim(1)});
  check.tensor({"index", index_T}, DType::i32, {dy_TD.dim(0)});
  plan_working_memory(
      stream, [&] { return cuda::embedding_backward_workspace(dy_TD, dtable_RD); });
  run_kernel<host::embedding_backward, cuda::embedding_backward>(
      family, stream, dy_TD, index_T, first, dtable_RD);
}

}  // namespace trireme::kernels
