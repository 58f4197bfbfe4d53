// Embedding: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/embedding.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "nn/layout.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {
namespace {

double rounded(double value, DType dtype) {
  return visit_floating(dtype, [&]<class T>(T) {
    return static_cast<double>(
        static_cast<Accumulator<T>>(T(static_cast<Accumulator<T>>(value))));
  });
}

}  // namespace

Embedding::Embedding(const EmbeddingConfig& config, const parallel::TensorRegion& region)
    : config_(config), region_(region), rows_(region.part(config.vocabulary)) {
  const Initializer normal{Initializer::Kind::normal, config.deviation};
  table_ = row_split_param(config.tokens + ".weight", {config.vocabulary, config.hidden},
                           rows_, normal);
  table_.table = true;
  table_.contributions = config.table_uses;
  table_.in_embedding_group = config.in_embedding_group;
  if (config.positions > 0) {
    positions_ = unsplit_param(region, config.position + ".weight",
                               {config.positions, config.hidden}, normal);
    positions_.table = true;
  }
}

void Embedding::forward(Pass& pass, const TensorView& tokens_T, const TensorView& x_TD,
                        Saved& saved) const {
  const std::int64_t T = pass.tokens();
  const Range outside = region_.outside_rows(T);
  saved.tokens_T = tokens_T;
  const ArenaScope scope(pass.scratch);
  // 1. look up this rank's entries: zeros elsewhere, so that the sum over ranks is the
  // row
  TensorView partial_TD =
      pass.scratch.take(table_.value.dtype(), {T, config_.hidden}, "embedding.partial");
  kernels::embedding(pass.stream, tokens_T, table_.value, rows_.begin,
                     kernels::Accumulate::no, partial_TD);
  partial_TD = in_type(pass, partial_TD, x_TD.dtype());
  // 2. leave the region
  const TensorView sum_TD = region_.leave(pass.stream, pass.scratch, partial_TD).wait();
  kernels::copy(pass.stream, sum_TD, x_TD);
  if (config_.scale != 1)
    kernels::scale(pass.stream, x_TD, rounded(config_.scale, x_TD.dtype()));
  // 3. positions
  if (config_.positions > 0) {
    kernels::embedding(
        pass.stream, pass.microbatch.positions_T.rows(outside.begin, outside.count()),
        in_type(pass, positions_.value, x_TD.dtype()), 0, kernels::Accumulate::yes, x_TD);
  }
  // 4. dropout
  if (drops(pass, config_.dropout)) dropout(pass, region_, config_.dropout, x_TD, x_TD);
}

// A token that is not among the rows of a call is passed by: the row of the padding token
// is in none.
void Embedding::add_table_gradient(Stream& stream, const TensorView& dx_TD,
                                   const TensorView& tokens_T) {
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    if (begin < end)
      kernels::embedding_backward(stream, dx_TD, tokens_T, begin,
                                  table_.gradient.rows(begin - rows_.begin, end - begin));
  };
  const std::int64_t pad = config_.pad_token;
  if (pad < rows_.begin || pad >= rows_.end)
    return kernels::embedding_backward(stream, dx_TD, tokens_T, rows_.begin,
                                       table_.gradient);
  add(rows_.begin, pad);
  add(pad + 1, rows_.end);
}

void Embedding::backward(Pass& pass, const TensorView& dy_TD, const Saved& saved) {
  const ArenaScope scope(pass.scratch);
  // 4. dropout
  const TensorView dx_TD = dropout_backward(pass, region_, config_.dropout, dy_TD);
  const Range outside = region_.outside_rows(pass.tokens());
  // 3. positions
  if (config_.positions > 0) {
    const TensorView index_T =
        pass.microbatch.positions_T.rows(outside.begin, outside.count());
    pass.weight_gradients.post(
        pass.stream, positions_, [this, dx_TD, index_T](Stream& on) {
          kernels::embedding_backward(on, dx_TD, index_T, 0, positions_.gradient);
        });
  }
  // 2. leave
  TensorView dtokens_TD = dx_TD;
  if (config_.scale != 1) {
    dtokens_TD = pass.kept().take(dx_TD.dtype(), dx_TD.shape(), "embedding.dx");
    kernels::copy(pass.stream, dx_TD, dtokens_TD);
    kernels::scale(pass.stream, dtokens_TD, rounded(config_.scale, dx_TD.dtype()));
  }
  const TensorView dx_all_TD =
      region_.leave_backward(pass.stream, pass.kept(), dtokens_TD).wait();
  // 1. table
  pass.weight_gradients.post(pass.stream, table_,
                             [this, dx_all_TD, tokens_T = saved.tokens_T](Stream& on) {
                               add_table_gradient(on, dx_all_TD, tokens_T);
                             });
}

void Embedding::collect(std::vector<Param*>& params) {
  params.push_back(&table_);
  if (config_.positions > 0) params.push_back(&positions_);
}

}  // namespace trireme::nn
