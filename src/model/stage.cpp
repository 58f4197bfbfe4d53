// Stage: a range of blocks, run forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "model/stage.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/rope.hpp"
#include "model/blocks.hpp"

namespace trireme::model {

Stage::Stage(const StageConfig& config, const parallel::TensorRegion& region,
             Device device, const parallel::ExpertAxes& axes)
    : config_(config), region_(region) {
  const ModelConfig& m = config.model;
  TensorView cos_sin;
  if (m.is_llama_like()) {
    const DType dtype = config.dtype == DType::f64 ? DType::f64 : DType::f32;
    const std::int64_t positions = config.positions > 0 ? config.positions : m.sequence;
    cos_sin_ = Buffer(device, dtype, {positions, m.head_width()}, MemoryClass::workspace,
                      "rotary table");
    cos_sin = cos_sin_.view();
    Stream stream(device);
    kernels::rope_table(stream, m.rope_theta, cos_sin);
  }
  require(!m.tie_embeddings || config.first == config.last,
          "tied embeddings need the embedding and the head on one stage");
  if (config.first) embedding_.emplace(embedding_config(m), region);
  for (std::int64_t layer = config.blocks.begin; layer < config.blocks.end; ++layer) {
    blocks_.push_back(std::make_unique<nn::Block>(block_config(m, layer), region, cos_sin,
                                                  axes, config.dtype, device));
  }
  if (config.last) {
    head_.emplace(head_config(m, config.z_loss), region,
                  m.tie_embeddings ? &embedding_->table() : nullptr);
  }
}

Stage::Saved Stage::make_saved() const {
  Saved saved;
  saved.blocks.resize(blocks_.size());
  return saved;
}

TensorView Stage::forward(nn::Pass& pass, const TensorView& input, Saved& saved) const {
  TensorView x_TD = input;
  if (embedding_) x_TD = embedding_->forward(pass, input, config_.dtype, saved.embedding);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    x_TD = blocks_[i]->forward(pass, x_TD, saved.blocks[i]);
  }
  saved.output_TD = x_TD;
  return x_TD;
}

double Stage::loss(nn::Pass& pass, const TensorView& targets_T, double scale,
                   Saved& saved) {
  return head_->forward(pass, saved.output_TD, targets_T, scale, saved.head);
}

double Stage::evaluate(nn::Pass& pass, const TensorView& targets_T, const Saved& saved,
                       const nn::Head::EachChunk& each) const {
  return head_->evaluate(pass, saved.output_TD, targets_T, each);
}

TensorView Stage::logits(nn::Pass& pass, const TensorView& x_RD) const {
  return head_->logits(pass, x_RD);
}

TensorView Stage::backward(nn::Pass& pass, const TensorView& dy_TD, const Saved& saved) {
  const TensorView& output = saved.output_TD;
  const TensorView dx_TD = pass.scratch.take(output.dtype(), output.shape(), "stage.dx");
  // 3. head
  if (head_) {
    head_->backward(pass, saved.head, dx_TD);
  } else {
    kernels::copy(pass.stream, dy_TD, dx_TD);
  }
  // 2. blocks; the gradient is rewritten in place
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    blocks_[i]->backward(pass, dx_TD, saved.blocks[i], dx_TD);
  }
  // 1. embedding
  if (embedding_) embedding_->backward(pass, dx_TD, saved.embedding);
  return dx_TD;
}

std::vector<Param*> Stage::parameters() {
  std::vector<Param*> params;
  if (embedding_) embedding_->collect(params);
  for (const auto& block : blocks_) block->collect(params);
  if (head_) head_->collect(params);
  return params;
}

std::vector<StateTensor*> Stage::states() {
  std::vector<StateTensor*> states;
  for (nn::Moe* moe : mixtures()) moe->collect(states);
  return states;
}

std::vector<nn::Moe*> Stage::mixtures() {
  std::vector<nn::Moe*> mixtures;
  for (const auto& block : blocks_)
    if (nn::Moe* moe = block->moe()) mixtures.push_back(moe);
  return mixtures;
}

std::size_t Stage::table_bytes() const {
  std::size_t bytes = cos_sin_.bytes();
  for (const auto& block : blocks_)
    if (const nn::Moe* moe = block->moe()) bytes += moe->table_bytes();
  return bytes;
}

}  // namespace trireme::model
