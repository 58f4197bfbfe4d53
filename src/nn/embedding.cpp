// Embedding: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/embedding.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "nn/layout.hpp"

namespace trireme::nn {

Embedding::Embedding(const EmbeddingConfig& config, const parallel::TensorRegion& region)
    : config_(config),
      region_(region),
      rows_(split_range(config.vocabulary, region.size(), region.rank())) {
  const Initializer normal{Initializer::Kind::normal, config.deviation};
  table_ = row_split_param(config.tokens + ".weight", {config.vocabulary, config.hidden},
                           rows_, normal);
  table_.contributions = config.tied ? 2 : 1;
  if (config.positions > 0) {
    positions_ = unsplit_param(region, config.position + ".weight",
                               {config.positions, config.hidden}, normal);
  }
}

TensorView Embedding::forward(Pass& pass, const TensorView& tokens_T, DType dtype,
                              Saved& saved) const {
  const std::int64_t T = pass.tokens();
  const Range outside = region_.outside_rows(T);
  saved.tokens_T = tokens_T;
  // The result comes first in the saved arena; the partial sum over ranks is scratch.
  const TensorView x_TD =
      pass.saved.take(dtype, {outside.count(), config_.hidden}, "embedding.x");
  const ArenaScope scope(pass.scratch);
  // 1. look up this rank's entries: zeros elsewhere, so that the sum over ranks is the
  // row
  const TensorView partial_TD =
      pass.scratch.take(dtype, {T, config_.hidden}, "embedding.partial");
  kernels::embedding(pass.stream, tokens_T, table_.value, rows_.begin, false, partial_TD);
  // 2. leave the region
  const TensorView sum_TD = region_.leave(pass.stream, pass.scratch, partial_TD).wait();
  kernels::copy(pass.stream, sum_TD, x_TD);
  // 3. positions
  if (config_.positions > 0) {
    kernels::embedding(pass.stream, pass.positions_T.rows(outside.begin, outside.count()),
                       positions_.value, 0, true, x_TD);
  }
  return x_TD;
}

void Embedding::backward(Pass& pass, const TensorView& dx_TD, const Saved& saved) {
  const ArenaScope scope(pass.scratch);
  const Range outside = region_.outside_rows(pass.tokens());
  // 3. positions
  if (config_.positions > 0) {
    pass.weight_gradients.post(positions_, [&] {
      kernels::embedding_backward(pass.stream, dx_TD,
                                  pass.positions_T.rows(outside.begin, outside.count()),
                                  0, positions_.gradient);
    });
  }
  // 2. leave
  const TensorView dx_all_TD =
      region_.leave_backward(pass.stream, pass.scratch, dx_TD).wait();
  // 1. table
  pass.weight_gradients.post(table_, [&] {
    kernels::embedding_backward(pass.stream, dx_all_TD, saved.tokens_T, rows_.begin,
                                table_.gradient);
  });
}

void Embedding::collect(std::vector<Param*>& params) {
  params.push_back(&table_);
  if (config_.positions > 0) params.push_back(&positions_);
}

}  // namespace trireme::nn
