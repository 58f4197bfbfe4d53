// Moe: a feed-forward half of a block made of experts, of which each token uses a few.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "kernels/accumulate.hpp"
#include "kernels/router.hpp"
#include "nn/feed_forward.hpp"
#include "nn/residual.hpp"
#include "parallel/expert_dispatch.hpp"
#include "parallel/expert_rounds.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

struct MoeConfig {
  // Names of the last part of a feed-forward's tensors: "w1", "gate_proj", ... The gate's
  // is used by gated activations only. With biases of the experts the router has one,
  // too; the shared expert's are its own.
  struct Names {
    std::string gate, up, down;
    bool biases = false;
  };

  std::int64_t hidden = 0;               // D
  std::int64_t feed_forward = 0;         // F, of one expert
  std::int64_t experts = 0;              // E
  std::int64_t top_k = 0;                // K, experts of a token
  std::int64_t shared_feed_forward = 0;  // of the expert that all tokens use; 0: none
  Activation activation = Activation::swiglu;  // of all of them
  kernels::RouterScore router = kernels::RouterScore::softmax;
  bool normalise = true;  // the weights of the chosen experts sum to `scaling`
  double scaling = 1.0;
  kernels::ExpertGroups groups{};  // of which a token uses some
  // An expert takes at most ceil(capacity_factor S K / E) tokens of a sequence; those at
  // later positions pass it by. 0: all. Needs whole sequences: no context parallelism,
  // and generation has none (Microbatch::whole_sequences).
  double capacity_factor = 0;
  double aux_loss = 0;  // factor of the balance loss of a sequence
  double z_loss = 0;    // factor of the mean of logsumexp(logits)^2
  // The choice adds a bias to each expert's score, which update_bias() moves by `rate`.
  bool choice_bias = false;
  double bias_update_rate = 0;
  double deviation = 0.02, output_deviation = 0.02;  // of the initial weights

  LinearPrecision products{};  // of the experts' projections

  std::string router_name;  // of the router without ".weight" and ".bias"; the bias of
                            // the choice is router_name.e_score_correction_bias
  std::string expert_name;  // experts are expert_name.<index>.<name>.weight and .bias
  std::string shared_name;  // shared_name.<name>.weight and .bias
  // The shared expert's output is multiplied by sigmoid(x . w); w is shared_gate.weight
  // [1, D]. Empty: it is not.
  std::string shared_gate;
  Names expert_names, shared_names;
};

// What the step's loss contains of all routers.
struct RouterLosses {
  double balance = 0, z = 0;
};

// Tokens enter the tensor region once. Inside, router and choice are the same on every
// rank of the tensor axis, the hidden units of every expert are split as an Mlp's, and
// the weighted sum over experts is a partial sum, which leaves the region. Biases of the
// experts' outputs are split by outputs: each rank of the tensor axis adds its part to
// its partial sums, so that their gradients are whole. Experts are shared out over the
// expert axis: see parallel/expert_dispatch.hpp.
class Moe {
 public:
  // Legend: R rows that this rank's experts get, N rows that leave their source rank (see
  // there). x is empty when it is computed again (Pass::recompute). With a bound on rows
  // (Route::in_rounds), rows and hidden are those of the last round, in memory for as
  // many as the bound.
  struct Saved {
    TensorView x_TD;  // input, outside the region (all tokens while a pass works)
    TensorView logits_TE, weights_TK;  // accumulator dtype
    TensorView choice_TK;              // i32
    TensorView sums_B2E;               // of the balance loss, if there is one
    parallel::ExpertDispatch::Route route;
    TensorView rows_RD, returned_ND;  // returned: what the experts made
    FeedForward<ExpertLinear>::Saved hidden;
    FeedForward<Linear>::Saved shared;
    // Of a shared expert with a gate: what it made, and sigmoid(x . w).
    TensorView shared_TD, gate_T1;
  };

  // dtype: of activations. The group behind `axes` and `region` outlive this.
  Moe(const MoeConfig& config, const parallel::TensorRegion& region,
      const parallel::ExpertAxes& axes, DType dtype, Device device);

  // As Attention::forward and backward, and collective over the expert axis (with
  // aux_loss also over the context axis). A second forward on the same input gives the
  // same. Backward adds the gradients of both losses, by pass.losses.aux_scale and
  // pass.losses.token_scale, and counts the step's load and losses: it runs once for each
  // microbatch of training, also under recomputation.
  void forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
               Saved& saved) const;
  TensorView backward(Pass& pass, const TensorView& dy_TD, Saved saved);

  void collect(std::vector<Param*>& params);
  void collect(std::vector<Fp8Operands*>& layers);
  void attach(const AdapterConfig& adapters);
  // The bias of the choice, f32 (f64 where the model is); none without one.
  void collect(std::vector<StateTensor*>& states);

  // Since clear_step(), of this rank's tokens: how many chose each expert (f64 [E], to be
  // summed over data x context in place), and the losses (f64 [2]: balance, z), with all
  // factors and scales: their sum over the ranks of data x context is what the step's
  // loss contains.
  const TensorView& load() const { return load_.view(); }
  const TensorView& losses() const { return losses_.view(); }
  // Of all microbatches since clear_step().
  const parallel::ExpertRounds& rounds() const { return rounds_; }
  void clear_step();
  // bias_e += rate * sign(mean of load - load_e), from the load of the global batch.
  // Nothing without a choice_bias.
  // Source: DeepSeek-AI, "DeepSeek-V3 technical report", arXiv 2412.19437, section 2.1.2.
  void update_bias();

  const MoeConfig& config() const { return config_; }
  std::size_t table_bytes() const {
    return load_.bytes() + losses_.bytes() + bias_.bytes();
  }

 private:
  bool has_shared() const { return config_.shared_feed_forward > 0; }
  // Experts' results are added to what the shared expert has written.
  kernels::Accumulate onto_shared() const {
    return has_shared() ? kernels::Accumulate::yes : kernels::Accumulate::no;
  }
  bool has_biases() const { return config_.expert_names.biases; }
  bool has_shared_biases() const { return has_shared() && config_.shared_names.biases; }
  bool has_gate() const { return has_shared() && !config_.shared_gate.empty(); }
  // The choice of experts by scores and a bias, which may be empty.
  void choose(Pass& pass, const TensorView& scores_TE, const TensorView& bias_E,
              const TensorView& choice_TK) const;
  // y_TD (written) of the shared expert, whose inner values are there.
  void shared_output(Pass& pass, const TensorView& y_TD, Saved& saved) const;
  // Adds to dx_TD; the gradient of the up projection is returned for later.
  Linear::Gradient shared_backward(Pass& pass, const TensorView& dy_TD,
                                   const Saved& saved, const TensorView& dx_TD);
  std::int64_t capacity(const Pass& pass) const;  // 0: none
  std::int64_t whole_sequence(const Pass& pass) const {
    return axes_.sequence_sum.whole(pass.microbatch.sequence);
  }
  void route(Pass& pass, Saved& saved) const;
  void balance_sums(Pass& pass, const TensorView& scores_TE, Saved& saved) const;
  // y_TD: written, or added to where there is a shared expert.
  void experts_forward(Pass& pass, const TensorView& y_TD, Saved& saved) const;
  void rounds_forward(Pass& pass, const TensorView& y_TD, Saved& saved) const;
  // What rows_RD make, written to out_RD.
  void feed_forward(Pass& pass, const TensorView& out_RD, Saved& rows) const;
  // The rows of one round of saved, whose route it gets.
  Saved round_of(const Saved& saved, const parallel::ExpertDispatch::Route& part) const;
  void fetch_rows(Pass& pass, const TensorView& x_TD, const Saved& rows) const;
  // The outputs of experts to which this rank adds their biases.
  TensorView biased_columns(const TensorView& out_RD) const;
  // The storage of the experts of this rank.
  void make_experts();
  // Of the experts' outputs and of the up projection's, whose weights' is posted later.
  struct RowsGradient {
    TensorView dout_RD;
    ExpertLinear::Gradient du;
  };
  // dweights_TK and dx_TD (written) from dy_TD. In rounds, `saved` becomes that of the
  // last one that is gone through, whose gradients are left to be posted.
  RowsGradient experts_backward(Pass& pass, const TensorView& dy_TD, const Saved& saved,
                                const TensorView& dweights_TK, const TensorView& dx_TD);
  RowsGradient rounds_backward(Pass& pass, const TensorView& dy_TD, Saved& saved,
                               const TensorView& dweights_TK, const TensorView& dx_TD);
  // drows_RD from rows.dout_RD.
  TensorView feed_backward(Pass& pass, const Saved& saved, RowsGradient& rows);
  void post_rows_gradient(Pass& pass, const Saved& saved, const RowsGradient& rows);
  TensorView router_backward(Pass& pass, const TensorView& dweights_TK,
                             const Saved& saved);

  MoeConfig config_;
  const parallel::TensorRegion& region_;
  parallel::ExpertAxes axes_;
  Range experts_;  // of this rank
  Param router_, router_bias_;
  FeedForward<ExpertLinear> feed_;  // of experts, one below the other
  FeedForward<Linear> shared_;
  Param shared_gate_;
  Buffer bias_, load_, losses_;
  parallel::ExpertRounds rounds_;
  StateTensor bias_state_;
};

}  // namespace trireme::nn
