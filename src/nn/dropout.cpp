// Dropout of what joins the residual stream.
// SPDX-License-Identifier: Apache-2.0
#include "nn/dropout.hpp"

#include "kernels/dropout.hpp"

namespace trireme::nn {

void dropout(Pass& pass, const parallel::TensorRegion& region,
             const DropoutConfig& config, const TensorView& x_TD,
             const TensorView& y_TD) {
  const DropoutRows& rows = pass.dropout;
  const Range mine = region.outside_rows(pass.tokens());
  kernels::dropout(pass.stream,
                   {.seed = rows.seed,
                    .stream = config.stream,
                    .first_sequence = rows.first_sequence,
                    .first_token = mine.begin,
                    .here = pass.microbatch.sequence,
                    .sequence = rows.sequence,
                    .first_sequence_1 = rows.first_sequence_1},
                   config.rate, rows.positions_T.rows(mine.begin, mine.count()), x_TD,
                   y_TD);
}

kernels::AttentionDropout attention_dropout(const Pass& pass, const DropoutConfig& config,
                                            const Range& heads, std::int64_t all) {
  if (!drops(pass, config)) return {};
  const DropoutRows& rows = pass.dropout;
  return {.rate = config.rate,
          .seed = rows.seed,
          .stream = config.stream,
          .first_sequence = rows.first_sequence,
          .heads = all,
          .first_head = heads.begin,
          .sequence = rows.sequence,
          .first_sequence_1 = rows.first_sequence_1};
}

TensorView dropout_backward(Pass& pass, const parallel::TensorRegion& region,
                            const DropoutConfig& config, const TensorView& dy_TD) {
  if (!drops(pass, config)) return dy_TD;
  const TensorView dx_TD = pass.kept().take(dy_TD.dtype(), dy_TD.shape(), "dropout.dx");
  dropout(pass, region, config, dy_TD, dx_TD);
  return dx_TD;
}

}  // namespace trireme::nn
