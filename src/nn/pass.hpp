// Pass: what every forward and backward of one microbatch shares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/memory.hpp"
#include "base/weight_access.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "nn/preferences.hpp"
#include "parallel/attention_core.hpp"

namespace trireme::parallel {
class AmaxRegion;
}

namespace trireme::nn {

class Fp8Report;

// Has `work` add a contribution to param.gradient. Only here it is known whether that is
// the step's first: then work(stream, Accumulate::no) writes it, whatever memory holds,
// and work(stream), which can only add, is given zeros.
template <class Work>
void contribute(Stream& stream, Param& param, const Work& work) {
  const bool first = std::exchange(param.stale_gradient, false);
  if constexpr (std::is_invocable_v<const Work&, Stream&, kernels::Accumulate>) {
    work(stream, first ? kernels::Accumulate::no : kernels::Accumulate::yes);
  } else {
    if (first) kernels::fill(stream, param.gradient, 0.0);
    work(stream);
  }
}

// Weight gradients of a microbatch that are made later than its input gradients, as
// zero-bubble schedules want it (Qi et al., 2023). Everything the work reads lies in the
// microbatch's saved arena.
class DeferredGradients {
 public:
  bool empty() const { return works_.empty(); }
  // Runs the work in the order in which it was posted, and forgets it.
  void run(Stream& stream, WeightAccess& weights);

 private:
  friend class WeightGradients;
  struct Work {
    int module;
    Param* param;
    std::function<void(Stream&)> add;
  };
  std::vector<Work> works_;
};

// Where modules deliver the gradients of their weights.
class WeightGradients {
 public:
  // Work is run at once, or deferred into `later` if that is given. Both outlive this.
  explicit WeightGradients(WeightAccess& weights, DeferredGradients* later = nullptr)
      : weights_(weights), later_(later) {}

  bool deferred() const { return later_ != nullptr; }

  // Work that is posted between belongs to this module (see WeightAccess).
  void open(int module);
  void close();

  // While one lives that is not `complete`, what is posted is added at once, also where
  // gradients are deferred, and completes no contribution: more of it is posted later.
  class Contribution {
   public:
    Contribution(WeightGradients& all, bool complete) : all_(all) {
      all.complete_ = complete;
    }
    ~Contribution() { all_.complete_ = true; }
    Contribution(const Contribution&) = delete;
    Contribution& operator=(const Contribution&) = delete;

   private:
    WeightGradients& all_;
  };

  // Work that makes one contribution to param.gradient, as contribute() calls it; none is
  // wanted if param is frozen. It may run after the caller has returned: it captures by
  // value, and what it reads lies in Pass::kept() or in the saved arena. Post it after
  // the communication of the input gradient has been started: the two overlap.
  template <class Work>
  void post(Stream& stream, Param& param, Work work) {
    if (param.frozen) return;
    if (later_ != nullptr && complete_) {
      later_->works_.push_back(
          {module_, &param, [&param, work = std::move(work)](Stream& on) {
             contribute(on, param, work);
           }});
      return;
    }
    contribute(stream, param, work);
    if (complete_) weights_.ready(param);
  }

 private:
  WeightAccess& weights_;
  DeferredGradients* later_;
  int module_ = -1;
  bool complete_ = true;
};

// What a block does not keep for backward but computes again (Korthikanti et al., 2022).
struct Recompute {
  bool full = false;        // keep the block's input only
  bool partition = false;   // with full: each tensor rank keeps its part of that input
                            // (ZeRO-R's P_a; Rajbhandari et al., 2020)
  bool norm = false;        // outputs of the norms
  bool attention = false;   // output of the attention core
  bool activation = false;  // output of the activation function
  bool up = false;          // output of the MLP's up projection
  bool operator==(const Recompute&) const = default;
};

// The documents that share the sequences of a microbatch: each counts its own positions
// and sees itself only. i32 [T] each; empty: a sequence is one text.
struct Documents {
  TensorView positions_T{};      // of each token in its document
  TensorView starts_T{};         // where its document begins in the whole sequence
  TensorView window_starts_T{};  // the first position that it sees with model.window
  bool empty() const { return starts_T.empty(); }
};

// B sequences of S positions each on this rank.
struct Microbatch {
  std::int64_t batch = 0;     // B
  std::int64_t sequence = 0;  // S
  TensorView positions_T{};   // i32: position of each token in its sequence
  // false: pieces of one, as generation makes it. No expert then has a capacity: whom it
  // passes by would depend on where the pieces begin.
  bool whole_sequences = true;
  // Positions of the text so far, where the model meets texts of any length (generation);
  // in training and evaluation all have those of the model, for which its tables are. 0:
  // each row turns as if its text ended there, where that makes a difference (dynamic).
  std::int64_t text_length = 0;
  Documents documents{};  // then positions_T are theirs
};

// Where losses are added, and what their gradients are multiplied by.
struct Losses {
  TensorView loss_1{};  // f64 [1]: the head adds the sum of its losses to it
  // Of the losses of routers (nn/moe.hpp) in backward: 1 / sequences and 1 / tokens of
  // the global batch.
  double aux_scale = 0;
  double token_scale = 0;
  double loss_scale = 1;  // of the gradients of routers' losses (the head's has it)
  // Null: the head's loss is the cross-entropy of the targets.
  const Preferences* preferences = nullptr;
};

// What the masks of dropout belong to, beside a layer and a use (kernels::DropoutKey).
struct DropoutRows {
  bool active = false;  // in training, where anything is dropped
  std::uint64_t seed = 0;
  std::int64_t first_sequence = 0;  // of the microbatch, counted through all steps
  std::int64_t sequence = 0;        // positions of a whole sequence
  TensorView positions_T{};         // i32: of each token in its whole sequence
  TensorView first_sequence_1{};    // as of kernels::DropoutKey
};

// What FP8 operands share on this rank.
struct Quantization {
  bool training = true;  // magnitudes count for the scales of later steps
  const parallel::AmaxRegion* amax_region = nullptr;  // null: tensors are whole here
  Fp8Report* report = nullptr;  // null: nobody wants to know what FP8 loses
};

// Legend: T = B * S tokens; rows outside the tensor region are all T of them, or this
// rank's part with sequence parallelism.
struct Pass {
  Stream& stream;
  Arena& saved;    // lives until the microbatch's gradients are done
  Arena& scratch;  // a stack; whoever takes from it releases it
  WeightGradients& weight_gradients;
  parallel::AttentionCore& attention;
  Microbatch microbatch;
  Losses losses{};
  Quantization fp8{};
  DropoutRows dropout{};
  Arena* recomputed = nullptr;  // with full recomputation: what a block computes again
  Recompute recompute{};        // of the block that is running

  std::int64_t tokens() const { return microbatch.batch * microbatch.sequence; }
  // The same, but what is saved goes to `arena`.
  Pass with_saved(Arena& arena) const {
    return {stream, arena, scratch, weight_gradients, attention, microbatch,
            losses, fp8,   dropout, recomputed,       recompute};
  }
  // Where backward puts what the weight gradients read.
  Arena& kept() const { return weight_gradients.deferred() ? saved : scratch; }
  // Where forward puts a value that backward needs unless it computes it again.
  Arena& kept_unless(bool recomputed) const { return recomputed ? scratch : saved; }

  // For a kernel that makes weight gradients in one sweep with the input gradient: where
  // it adds the gradient of `param` (in `dtype`). Once it has, add_fused(param, target).
  TensorView fused_target(Param& param, DType dtype);
  void add_fused(Param& param, const TensorView& target);
};

}  // namespace trireme::nn
