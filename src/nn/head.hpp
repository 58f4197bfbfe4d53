// Head: final norm, projection to the vocabulary and cross-entropy, a chunk at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/cross_entropy.hpp"
#include "nn/norm.hpp"
#include "nn/pass.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

// How many rows of logits are made at once, and in which type. Each chunk also reads and
// writes the whole gradient of the projection, once, in the accumulator dtype.
struct HeadChunks {
  std::int64_t bytes = 128 << 20;  // of logits, at the most, but for large vocabularies
  std::int64_t multiple = 1;       // rows are one of this, but for the last chunk
  // For the training loss: in the type of activations, so that their gradient takes their
  // place, and not in its accumulator. Not with a cap, whose gradient needs both.
  bool in_compute_type = false;
};

struct HeadConfig {
  NormConfig norm;
  std::int64_t vocabulary = 0;  // V
  std::int64_t hidden = 0;      // D
  double deviation = 0.02;
  double z_loss = 0;     // of forward(): factor of log(sum of exp of logits)^2
  double logit_cap = 0;  // logits are cap tanh(logits / cap); 0: as they are
  HeadChunks chunks{};
  std::string name;  // of the projection, without ".weight"; unused when tied
  // The projection is a copy of the embedding table of another rank, which owns it.
  bool in_embedding_group = false;
};

class Head {
 public:
  struct Saved {
    TensorView dx_TD;  // gradient of the head's input, made together with the loss
  };

  // tied: the embedding table (kept by the embedding), or null for a projection of its
  // own.
  Head(const HeadConfig& config, const parallel::TensorRegion& region, Param* tied);

  // Adds the sum of the losses of the T tokens (targets_T i32, ignored where negative),
  // the z-loss included, all tokens on every rank, to pass.losses.loss_1. Forward and
  // backward in one: the gradients of d(loss * scale) are posted, and that of x is left
  // in `saved`, for a chunk's logits are made only once. With pass.losses.preferences the
  // loss is the sum over pairs, without z-loss, and logits are made twice: the gradient
  // of a token depends on all tokens of both answers.
  void forward(Pass& pass, const TensorView& x_TD, const TensorView& targets_T,
               const kernels::LossScale& scale, Saved& saved);
  // The cross-entropy alone, without the z-loss: what a model is judged by does not
  // depend on how it was trained. `each`, if given, sees the logits of every chunk on
  // this rank: (first token, logits [C, V on this rank] in the accumulator dtype). With
  // pass.losses.preferences, the answers' log-probabilities are written there.
  using EachChunk = std::function<void(std::int64_t, const TensorView&)>;
  void evaluate(Pass& pass, const TensorView& x_TD, const TensorView& targets_T,
                const EachChunk& each = {}) const;
  // Logits of the given rows after norm: x_RD outside rows -> [R, V on this rank],
  // scratch.
  TensorView logits(Pass& pass, const TensorView& x_RD) const;

  void collect(std::vector<Param*>& params);
  Range vocabulary_range() const { return columns_; }
  // The table it shares with the embedding, or null.
  Param* tied() const { return tied_; }

 private:
  // logits_RV (written, this rank's vocabulary) = h_RD W^T, capped.
  void project(Stream& stream, const TensorView& h_RD, const TensorView& weight_VD,
               const TensorView& logits_RV) const;
  // Of the training loss, where activations are of this type.
  DType logits_type(DType dtype) const;
  std::int64_t chunk_rows(std::int64_t tokens, DType logits) const;
  // What is known of all tokens before their gradients are made: scratch.
  struct Known {
    TensorView stats_T3, loss_T;
    TensorView factors_T;  // f64: of the tokens' gradients
  };
  // Loss of the chunks of h_TD (where it is not known yet), dh_TD (written), the
  // projection's gradient (added). Returns dh_TD on its way out of the region.
  parallel::Transfer loss_and_gradients(Pass& pass, const TensorView& h_TD,
                                        const TensorView& targets_T,
                                        const kernels::LossScale& scale,
                                        const Known* known, const TensorView& dh_TD);
  // Statistics of a chunk and the loss of its tokens (written).
  void chunk_loss(Pass& pass, const TensorView& logits_CV, const TensorView& targets_C,
                  double z_loss, const TensorView& stats_C3,
                  const TensorView& loss_C) const;
  // The same of a chunk of the training loss, which is added to what the pass has.
  void add_chunk_loss(Pass& pass, const TensorView& logits_CV,
                      const TensorView& targets_C, const TensorView& stats_C3) const;
  // The same of every chunk, without z-loss; logits of `type`.
  void all_losses(Pass& pass, const TensorView& h_TD, const TensorView& targets_T,
                  DType type, const Known& known, const EachChunk& each) const;
  Known take_known(Pass& pass, DType dtype) const;
  // Log-probabilities of the G answers from the tokens' losses; on the host.
  std::vector<double> answer_sums(Pass& pass, const TensorView& loss_T) const;
  // Adds the loss of the pairs; known.factors_T: written.
  void weigh_answers(Pass& pass, const Known& known) const;
  const Param& weight() const { return tied_ ? *tied_ : own_; }

  HeadConfig config_;
  const parallel::TensorRegion& region_;
  Range columns_;  // vocabulary entries of this rank
  Norm norm_;
  Param own_;
  Param* tied_;
};

}  // namespace trireme::nn
