// Head: loss, gradients and logits.
// SPDX-License-Identifier: Apache-2.0
// Legend: T tokens, C tokens of a chunk, V vocabulary entries on this rank, D width.
#include "nn/head.hpp"

#include <algorithm>

#include "kernels/elementwise.hpp"
#include "nn/layout.hpp"
#include "nn/linear.hpp"
#include "nn/vocabulary_products.hpp"

namespace trireme::nn {
namespace {

constexpr std::int64_t least_rows = 16;  // of a chunk, whatever they take

// Logits whose rows start at addresses that tensor cores can load from, for an odd
// vocabulary too: GPT-2's of 50257 would halve the speed of the three products.
TensorView take_logits(Arena& arena, DType dtype, std::int64_t rows, std::int64_t V,
                       const char* label) {
  constexpr std::int64_t multiple = 64;
  return arena.take(dtype, {rows, divide_up(V, multiple) * multiple}, label)
      .columns(0, V);
}

}  // namespace

Head::Head(const HeadConfig& config, const parallel::TensorRegion& region, Param* tied)
    : config_(config),
      region_(region),
      columns_(region.part(config.vocabulary)),
      norm_(config.norm, region),
      tied_(tied) {
  if (!tied) {
    own_ = row_split_param(config.name + ".weight", {config.vocabulary, config.hidden},
                           columns_, {Initializer::Kind::normal, config.deviation});
    own_.table = true;
    own_.in_embedding_group = config.in_embedding_group;
    if (config.in_embedding_group) own_.boxes.front().owned = false;
  }
}

void Head::project(Stream& stream, const TensorView& h_RD, const TensorView& weight_VD,
                   const TensorView& logits_RV) const {
  vocabulary_logits(stream, h_RD, weight_VD, logits_RV);
  if (config_.logit_cap > 0) kernels::soft_cap(stream, logits_RV, config_.logit_cap);
}

DType Head::logits_type(DType dtype) const {
  const bool in_place = config_.chunks.in_compute_type && config_.logit_cap == 0;
  return in_place ? dtype : accumulator_of(dtype);
}

std::int64_t Head::chunk_rows(std::int64_t tokens, DType logits) const {
  // The same on every rank: counted with the largest part of the vocabulary.
  const std::int64_t row_bytes = region_.largest_part(config_.vocabulary) *
                                 static_cast<std::int64_t>(size_of(logits));
  const std::int64_t bytes = config_.chunks.bytes, multiple = config_.chunks.multiple;
  const std::int64_t most = std::max(bytes / row_bytes, least_rows);
  // At least two chunks, of equal size but for the last.
  const std::int64_t chunks = std::max<std::int64_t>(divide_up(tokens, most), 2);
  const std::int64_t rows = divide_up(tokens, chunks);
  const std::int64_t below = rows / multiple * multiple;
  const std::int64_t above = divide_up(rows, multiple) * multiple;
  if (above <= most) return above;
  return below > 0 ? below : rows;
}

void Head::chunk_loss(Pass& pass, const TensorView& logits_CV,
                      const TensorView& targets_C, double z_loss,
                      const TensorView& stats_C3, const TensorView& loss_C) const {
  const ArenaScope scope(pass.scratch);
  const TensorView local_C3 =
      pass.scratch.take(stats_C3.dtype(), stats_C3.shape(), "head.stats");
  kernels::cross_entropy_statistics(pass.stream, logits_CV, targets_C, columns_.begin,
                                    local_C3);
  const TensorView all_RC3 = region_.gather(pass.stream, pass.scratch, local_C3);
  kernels::cross_entropy_combine(pass.stream, all_RC3, stats_C3);
  kernels::cross_entropy_loss(pass.stream, stats_C3, targets_C, z_loss, loss_C);
}

void Head::add_chunk_loss(Pass& pass, const TensorView& logits_CV,
                          const TensorView& targets_C, const TensorView& stats_C3) const {
  const ArenaScope scope(pass.scratch);
  const TensorView loss_C =
      pass.scratch.take(stats_C3.dtype(), {stats_C3.dim(0)}, "head.loss");
  chunk_loss(pass, logits_CV, targets_C, config_.z_loss, stats_C3, loss_C);
  kernels::add_sum(pass.stream, loss_C, pass.losses.loss_1);
}

void Head::all_losses(Pass& pass, const TensorView& h_TD, const TensorView& targets_T,
                      DType type, const Known& known, const EachChunk& each) const {
  const std::int64_t T = pass.tokens(), C = chunk_rows(T, type), V = columns_.count();
  const ArenaScope scope(pass.scratch);
  const TensorView weight_VD = in_type(pass, weight().value, h_TD.dtype());
  for (std::int64_t first = 0; first < T; first += C) {
    const ArenaScope inner(pass.scratch);
    const std::int64_t rows = std::min(C, T - first);
    const TensorView logits_CV = take_logits(pass.scratch, type, rows, V, "head.logits");
    project(pass.stream, h_TD.rows(first, rows), weight_VD, logits_CV);
    chunk_loss(pass, logits_CV, targets_T.rows(first, rows), 0.0,
               known.stats_T3.rows(first, rows), known.loss_T.rows(first, rows));
    if (each) each(first, logits_CV);
  }
}

parallel::Transfer Head::loss_and_gradients(Pass& pass, const TensorView& h_TD,
                                            const TensorView& targets_T,
                                            const kernels::LossScale& scale,
                                            const Known* known, const TensorView& dh_TD) {
  Stream& stream = pass.stream;
  const DType dtype = h_TD.dtype(), of_logits = logits_type(dtype);
  Param& projection = tied_ ? *tied_ : own_;
  const bool capped = config_.logit_cap > 0;
  const std::size_t whole = pass.scratch.mark();
  const TensorView weight_VD = in_type(pass, projection.value, dtype);
  const std::int64_t T = pass.tokens(), C = chunk_rows(T, of_logits),
                     V = columns_.count();
  parallel::Transfer dh(dh_TD);
  for (std::int64_t first = 0; first < T; first += C) {
    const std::size_t mark = pass.scratch.mark();
    const std::int64_t rows = std::min(C, T - first);
    const TensorView logits_CV =
        take_logits(pass.scratch, of_logits, rows, V, "head.logits");
    const TensorView stats_C3 =
        known ? known->stats_T3.rows(first, rows)
              : pass.scratch.take(accumulator_of(dtype), {rows, 3}, "head.merged");
    // In the place of the logits, unless the cap's gradient still needs them.
    const TensorView dlogits_CV =
        dtype == of_logits && !capped
            ? logits_CV
            : take_logits(pass.scratch, dtype, rows, V, "head.dlogits");
    const TensorView targets_C = targets_T.rows(first, rows);
    const TensorView h_CD = h_TD.rows(first, rows);
    project(stream, h_CD, weight_VD, logits_CV);
    if (!known) add_chunk_loss(pass, logits_CV, targets_C, stats_C3);
    kernels::cross_entropy_gradient(
        stream, logits_CV, stats_C3, targets_C, columns_.begin,
        known ? scale.times(known->factors_T.rows(first, rows)) : scale, config_.z_loss,
        dlogits_CV);
    if (capped)
      kernels::soft_cap_backward(stream, logits_CV, config_.logit_cap, dlogits_CV);
    vocabulary_input_gradient(stream, dlogits_CV, weight_VD, dh_TD.rows(first, rows));
    const bool last = first + rows == T;
    if (last) dh = region_.enter_backward(stream, pass.scratch, dh_TD);
    if (!projection.frozen)
      contribute(stream, projection, [&](Stream& on, kernels::Accumulate how) {
        vocabulary_weight_gradient(on, dlogits_CV, h_CD, projection.gradient, how);
      });
    if (!last) pass.scratch.release(mark);
  }
  // What came out of the region lies above the last chunk, which stays with it.
  if (!region_.divided()) pass.scratch.release(whole);
  return dh;
}

void Head::forward(Pass& pass, const TensorView& x_TD, const TensorView& targets_T,
                   const kernels::LossScale& scale, Saved& saved) {
  require(!pass.weight_gradients.deferred(),
          "the head's weight gradients cannot be deferred");
  Stream& stream = pass.stream;
  const DType dtype = x_TD.dtype();
  saved.dx_TD = pass.saved.take(dtype, x_TD.shape(), "head.dx");
  const ArenaScope scope(pass.scratch);
  Norm::Saved norm_saved;
  Pass inner = pass.with_saved(pass.scratch);  // nothing of it outlives this call
  // 1. norm, 2. enter the region
  const TensorView h_out_TD = pass.scratch.take(dtype, x_TD.shape(), "head.h");
  norm_.forward(inner, x_TD, h_out_TD, norm_saved);
  const TensorView h_TD = region_.enter(stream, pass.scratch, h_out_TD).wait();
  // 3. with preferences: the loss of the pairs, and what it weighs each token with
  const bool pairs = pass.losses.preferences != nullptr;
  Known known;
  if (pairs) {
    known = take_known(pass, dtype);
    all_losses(pass, h_TD, targets_T, logits_type(dtype), known, {});
    weigh_answers(pass, known);
  }
  // 4. for each chunk: logits, loss, their gradient, and what follows from it
  const TensorView dh_all_TD = pass.scratch.take(dtype, h_TD.shape(), "head.dh");
  // 2. enter: its communication overlaps with the last chunk's weight gradient
  auto dh = loss_and_gradients(pass, h_TD, targets_T, scale, pairs ? &known : nullptr,
                               dh_all_TD);
  pass.weight_gradients.post(stream, tied_ ? *tied_ : own_, [](Stream&) {});
  // 1. norm
  norm_.backward(inner, dh.wait(), norm_saved, {}, saved.dx_TD);
}

void Head::evaluate(Pass& pass, const TensorView& x_TD, const TensorView& targets_T,
                    const EachChunk& each) const {
  Stream& stream = pass.stream;
  const DType dtype = x_TD.dtype();
  const ArenaScope scope(pass.scratch);
  Norm::Saved unused;
  Pass inner = pass.with_saved(pass.scratch);
  const TensorView h_out_TD = pass.scratch.take(dtype, x_TD.shape(), "head.h");
  norm_.forward(inner, x_TD, h_out_TD, unused);
  const TensorView h_TD = region_.enter(stream, pass.scratch, h_out_TD).wait();
  const Known known = take_known(pass, dtype);
  all_losses(pass, h_TD, targets_T, accumulator_of(dtype), known, each);
  kernels::add_sum(stream, known.loss_T, pass.losses.loss_1);
  if (pass.losses.preferences != nullptr)
    *pass.losses.preferences->log_probabilities = answer_sums(pass, known.loss_T);
}

TensorView Head::logits(Pass& pass, const TensorView& x_RD) const {
  const DType dtype = x_RD.dtype();
  Norm::Saved unused;
  const TensorView logits_RV = pass.scratch.take(
      accumulator_of(dtype), {x_RD.dim(0), columns_.count()}, "head.logits");
  const ArenaScope scope(pass.scratch);
  Pass inner = pass.with_saved(pass.scratch);
  const TensorView h_RD = pass.scratch.take(dtype, x_RD.shape(), "head.h");
  norm_.forward(inner, x_RD, h_RD, unused);
  project(pass.stream, h_RD, in_type(pass, weight().value, dtype), logits_RV);
  return logits_RV;
}

void Head::collect(std::vector<Param*>& params) {
  norm_.collect(params);
  if (!tied_) params.push_back(&own_);
}

}  // namespace trireme::nn
