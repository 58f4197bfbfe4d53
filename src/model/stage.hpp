// Stage: the blocks of one pipeline stage, one after the other.
// SPDX-License-Identifier: Apache-2.0
// The first stage has the embedding, the last the head; one rank has one stage of all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/activation_storage.hpp"
#include "model/model_config.hpp"
#include "model/rotary_tables.hpp"
#include "nn/block.hpp"
#include "nn/embedding.hpp"
#include "nn/fp8_state.hpp"
#include "nn/head.hpp"
#include "nn/weight_codes.hpp"

namespace trireme::model {

struct StageConfig {
  ModelConfig model;
  Range blocks;               // of the model's layers
  bool first = true;          // has the embedding
  bool last = true;           // has the head
  bool ends_together = true;  // the first and the last stage are on one rank
  DType dtype = DType::f32;
  double z_loss = 0;
  nn::HeadChunks head_chunks{};
  // Rows of the rotary tables, for texts of any length up to it (generation); 0: those of
  // model.sequence, for whole ones.
  std::int64_t positions = 0;
  int first_module = 0;       // number of its first module (see WeightAccess)
  nn::Recompute recompute{};  // of the blocks below recompute_layers
  std::int64_t recompute_layers = 0;
  nn::LinearPrecision products{};  // of the blocks in fp8_blocks
  Range fp8_blocks{};
  nn::DelayedScaling scaling{};
  bool keep_weight_codes = false;  // of FP8, while weights do not change
  nn::AdapterConfig adapter{};     // of the blocks' linear layers
};

class Stage {
 public:
  // Everything one microbatch keeps between its forward and its backward.
  struct Saved {
    nn::Embedding::Saved embedding;
    std::vector<nn::Block::Saved> blocks;
    std::vector<TensorView> inputs_TD;  // of the blocks that recompute
    nn::Head::Saved head;
    TensorView output_TD;
    ActivationStorage* kept = nullptr;  // null: blocks keep everything in Pass::saved
  };

  // Builds the Params; their memory is bound later (optim::ParameterStore). `device`:
  // meta for planning. region, and the groups behind `axes`, outlive the stage. table: of
  // another stage of this rank that has the embedding, when the embeddings are tied and
  // this stage has the head.
  Stage(const StageConfig& config, const parallel::TensorRegion& region, Device device,
        const parallel::ExpertAxes& axes = {}, Param* table = nullptr);

  // Runs the embedding (if first) and the blocks. input: tokens_T (i32) on the first
  // stage, else activations that live as long as what is saved. Returns the last block's
  // output, in pass.saved.
  TensorView forward(nn::Pass& pass, const TensorView& input, Saved& saved) const;
  // On the last stage: see nn::Head::forward, on the output of forward().
  void loss(nn::Pass& pass, const TensorView& targets_T, const kernels::LossScale& scale,
            Saved& saved);
  void evaluate(nn::Pass& pass, const TensorView& targets_T, const Saved& saved,
                const nn::Head::EachChunk& each = {}) const;
  // Logits of rows of forward()'s output; see nn::Head::logits.
  TensorView logits(nn::Pass& pass, const TensorView& x_RD) const;
  // Backward of the blocks and the embedding (if first); the head's is done. dy_TD:
  // gradient of forward()'s output, unread on the last stage; it may be that output's own
  // memory. dx_TD: gradient of the input activations (written; empty on the first stage).
  void backward(nn::Pass& pass, const TensorView& dy_TD, const TensorView& dx_TD,
                const Saved& saved);

  // Who owns the weights, told of what the stage does; by default all are in place.
  void attach(WeightAccess& weights) { weights_ = &weights; }

  // In the order of forward.
  std::vector<Param*> parameters();
  // The embedding, the blocks and the head, as far as this stage has them.
  std::vector<ParamModule> modules();
  // Tensors of the model without gradient: the biases of routers.
  std::vector<StateTensor*> states();
  // Scales of the layers in FP8, or null.
  nn::Fp8State* scales() { return scales_ ? &*scales_ : nullptr; }
  // FP8 codes of weights that were kept are those of other weights, or may be.
  void weights_changed() {
    if (codes_) codes_->weights_changed();
  }
  // The MoE layers, for their load and losses.
  std::vector<nn::Moe*> moe_layers();
  Saved make_saved() const;
  // The embedding table, or null.
  Param* table() { return embedding_ ? &embedding_->table() : nullptr; }

  const StageConfig& config() const { return config_; }
  // Bytes of the tables the stage holds besides its Params.
  std::size_t table_bytes() const;
  Range vocabulary_range() const { return head_->vocabulary_range(); }

 private:
  nn::Recompute recompute_of(std::size_t block) const;
  // Whether a block keeps only this rank's part of its input.
  bool partitions(std::size_t block) const;
  // Where the blocks' activations do not stay in Pass::saved, else null.
  ActivationStorage* storage_of(std::size_t block, const Saved& saved) const;
  int module_of(std::size_t block) const;
  void forward_block(nn::Pass& pass, std::size_t i, const TensorView& x_TD,
                     const TensorView& y_TD, Saved& saved) const;
  // The same, where pass.saved has what the block keeps.
  void run_block(nn::Pass pass, std::size_t i, const TensorView& x_TD,
                 const TensorView& y_TD, Saved& saved) const;
  void backward_block(nn::Pass& pass, std::size_t i, const TensorView& dy_TD,
                      const TensorView& dx_TD, const Saved& saved);

  StageConfig config_;
  const parallel::TensorRegion& region_;
  WeightAccess in_place_;
  WeightAccess* weights_ = &in_place_;
  RotaryTables rotary_;
  std::optional<nn::Embedding> embedding_;
  std::vector<std::unique_ptr<nn::Block>> blocks_;
  std::optional<nn::Head> head_;
  std::optional<nn::Fp8State> scales_;
  std::optional<nn::WeightCodes> codes_;
};

// Parameters of the whole model.
std::int64_t parameter_count(const ModelConfig& config);

// Which parameters of a model are trained: all of them, or those of adapters and what
// freeze() does not mark.
struct Trained {
  nn::AdapterConfig adapter{};
  std::function<void(Param&)> freeze{};
};

// FLOPs of training on one token (Kaplan et al., 2020; Chowdhery et al., 2022, appendix
// B): 6 N + 12 L D S with full attention, 6 N + 6 L D S when only the causal half is
// counted. N counts the experts that a token uses; of what is frozen no gradient is made,
// 2 N less. D is the width of all heads. A layer with linear attention has 18 G K V in
// place of the last term (G value heads, keys of width K, values of width V): of the rule
// row by row, not of its chunks.
struct FlopsPerToken {
  double full = 0, causal = 0;
};
FlopsPerToken flops_per_token(const ModelConfig& config, const Trained& trained = {});

}  // namespace trireme::model
