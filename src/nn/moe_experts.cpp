// Moe: its experts, forward and backward: all rows at once, or in rounds.
// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "kernels/moe.hpp"
#include "nn/moe.hpp"

namespace trireme::nn {

TensorView Moe::biased_columns(const TensorView& out_RD) const {
  const Range mine = region_.part(config_.hidden);
  return out_RD.columns(mine.begin, mine.count());
}

void Moe::feed_forward(Pass& pass, const TensorView& out_RD, Saved& rows) const {
  feed_.forward(pass, rows.rows_RD, rows.hidden, rows.route);
  feed_.down.forward(pass, rows.route, rows.hidden.a_NF, out_RD, rows.hidden.down);
  if (has_biases())
    feed_.down.add_bias(pass, rows.route, feed_.down_bias.value, biased_columns(out_RD));
}

void Moe::experts_forward(Pass& pass, const TensorView& y_TD, Saved& saved) const {
  Stream& stream = pass.stream;
  const parallel::ExpertDispatch& dispatch = axes_.dispatch;
  const DType dtype = saved.x_TD.dtype();
  const std::int64_t R = saved.route.rows;
  // 1. rows to their experts
  saved.rows_RD =
      dispatch.dispatch(stream, pass.saved, pass.scratch, saved.route, saved.x_TD);
  // 2. feed-forward of each expert
  feed_.take(pass, dtype, R, saved.hidden);
  // On one rank these rows are already at their source rank, where they are kept.
  Arena& arena = dispatch.divided() ? pass.scratch : pass.saved;
  const TensorView out_RD = arena.take(dtype, {R, config_.hidden}, "moe.out");
  feed_forward(pass, out_RD, saved);
  // 3. and back to their source ranks
  saved.returned_ND = dispatch.combine(stream, pass.saved, pass.scratch, saved.route,
                                       out_RD, saved.weights_TK, onto_shared(), y_TD);
}

// Step 2. of experts_forward().
TensorView Moe::feed_backward(Pass& pass, const Saved& saved, RowsGradient& rows) {
  const DType dtype = rows.dout_RD.dtype();
  const TensorView da_RF =
      feed_.arena_of_da(pass).take(dtype, saved.hidden.a_NF.shape(), "moe.da");
  const TensorView du_RU =
      feed_.backward(pass, rows.dout_RD, saved.hidden, da_RF, saved.route);
  const TensorView drows_RD =
      pass.scratch.take(dtype, saved.rows_RD.shape(), "moe.drows");
  rows.du = feed_.up.output_gradient(pass, saved.route, du_RU);
  feed_.up.input_gradient(pass, saved.route, rows.du, drows_RD);
  return drows_RD;
}

Moe::RowsGradient Moe::experts_backward(Pass& pass, const TensorView& dy_TD,
                                        const Saved& saved, const TensorView& dweights_TK,
                                        const TensorView& dx_TD) {
  // 3. back to the experts, 2. feed-forward, 1. home
  RowsGradient rows;
  rows.dout_RD = axes_.dispatch.combine_backward(pass.stream, pass.kept(), pass.scratch,
                                                 saved.route, dy_TD, saved.returned_ND,
                                                 saved.weights_TK, dweights_TK);
  const TensorView drows_RD = feed_backward(pass, saved, rows);
  axes_.dispatch.dispatch_backward(pass.stream, pass.scratch, saved.route, drows_RD,
                                   dx_TD);
  return rows;
}

void Moe::post_rows_gradient(Pass& pass, const Saved& saved, const RowsGradient& rows) {
  feed_.up.post_weight_gradient(pass, saved.route, rows.du, saved.rows_RD,
                                saved.hidden.up);
  if (!has_biases()) return;
  feed_.up.post_bias_gradient(pass, saved.route, rows.du.output(), feed_.up_bias);
  feed_.down.post_bias_gradient(pass, saved.route, biased_columns(rows.dout_RD),
                                feed_.down_bias);
}

Moe::Saved Moe::round_of(const Saved& saved,
                         const parallel::ExpertDispatch::Route& part) const {
  const auto first = [&](const TensorView& all) {
    return all.empty() ? all : all.rows(0, part.rows);
  };
  Saved rows = saved;
  rows.route = part;
  rows.rows_RD = first(saved.rows_RD);
  rows.hidden.u_NU = first(saved.hidden.u_NU);
  rows.hidden.a_NF = first(saved.hidden.a_NF);
  return rows;
}

void Moe::fetch_rows(Pass& pass, const TensorView& x_TD, const Saved& rows) const {
  const ArenaScope scope(pass.scratch);
  const TensorView leaving_ND = pass.scratch.take(
      x_TD.dtype(), {rows.route.leaving, config_.hidden}, "moe.leaving");
  kernels::gather_rows(pass.stream, x_TD, rows.route.token_N, leaving_ND);
  axes_.dispatch.to_experts(pass.stream, pass.scratch, rows.route, leaving_ND,
                            rows.rows_RD);
}

// Steps as in experts_forward(). Rounds share their memory, and what the last one leaves
// in it is kept for backward; what came back to the source ranks is kept of all.
void Moe::rounds_forward(Pass& pass, const TensorView& y_TD, Saved& saved) const {
  Stream& stream = pass.stream;
  const DType dtype = saved.x_TD.dtype();
  const parallel::ExpertDispatch::Route& all = saved.route;
  const std::int64_t D = config_.hidden;
  saved.rows_RD = pass.saved.take(dtype, {all.bound, D}, "moe.rows");
  saved.returned_ND = pass.saved.take(dtype, {all.leaving, D}, "moe.returned");
  feed_.take(pass, dtype, all.bound, saved.hidden);
  for (int round = 0; round < all.rounds; ++round) {
    const ArenaScope scope(pass.scratch);
    Saved rows = round_of(saved, axes_.dispatch.part(stream, all, round));
    fetch_rows(pass, saved.x_TD, rows);
    const TensorView out_RD = pass.scratch.take(dtype, rows.rows_RD.shape(), "moe.out");
    feed_forward(pass, out_RD, rows);
    axes_.dispatch.to_source_ranks(stream, pass.scratch, rows.route, out_RD,
                                   saved.returned_ND);
  }
  kernels::combine_rows(stream, saved.returned_ND, all.row_TK, saved.weights_TK,
                        onto_shared(), y_TD);
}

// Rounds in reverse: the last one was kept, the rows of the others come once more. The
// gradient of what was sent takes the place of that of what came back. No round needs
// more memory than the one that a plan has: what rows take on their way here is given
// back before their gradients take as much. What the next round writes over cannot wait:
// where weights' gradients are deferred, those of the round that is gone through last
// are.
Moe::RowsGradient Moe::rounds_backward(Pass& pass, const TensorView& dy_TD, Saved& saved,
                                       const TensorView& dweights_TK,
                                       const TensorView& dx_TD) {
  Stream& stream = pass.stream;
  const parallel::ExpertDispatch& dispatch = axes_.dispatch;
  const DType dtype = dy_TD.dtype();
  const Saved all = std::move(saved);
  const TensorView dleaving_ND =
      pass.scratch.take(dtype, all.returned_ND.shape(), "moe.dleaving");
  kernels::combine_rows_backward(stream, dy_TD, all.returned_ND, all.route.row_TK,
                                 all.weights_TK, dleaving_ND, dweights_TK);
  RowsGradient rows;
  for (int round = all.route.rounds - 1; round >= 0; --round) {
    std::optional<ArenaScope> scope, kept;
    if (round > 0) {
      scope.emplace(pass.scratch);
      kept.emplace(pass.kept());
    }
    const WeightGradients::Contribution contribution(pass.weight_gradients, round == 0);
    saved = round_of(all, dispatch.part(stream, all.route, round));
    if (round == all.route.rounds - 1) {
      feed_.again(pass, saved.rows_RD, saved.hidden, saved.route);
    } else {
      fetch_rows(pass, saved.x_TD, saved);
      feed_.anew(pass, saved.rows_RD, saved.hidden, saved.route);
    }
    rows.dout_RD = pass.kept().take(dtype, saved.rows_RD.shape(), "moe.dout");
    dispatch.to_experts(stream, pass.scratch, saved.route, dleaving_ND, rows.dout_RD);
    const TensorView drows_RD = feed_backward(pass, saved, rows);
    dispatch.to_source_ranks(stream, pass.scratch, saved.route, drows_RD, dleaving_ND);
    if (round > 0) post_rows_gradient(pass, saved, rows);
  }
  kernels::combine_rows(stream, dleaving_ND, all.route.row_TK, {},
                        kernels::Accumulate::no, dx_TD);
  return rows;
}

}  // namespace trireme::nn
