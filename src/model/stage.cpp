// Stage: a range of blocks, run forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "model/stage.hpp"

#include <array>

#include "kernels/elementwise.hpp"
#include "model/blocks.hpp"

namespace trireme::model {
namespace {

TextLengths text_lengths(const StageConfig& config) {
  const bool any = config.positions > 0;
  return {any ? config.positions : config.model.sequence, any};
}

}  // namespace

Stage::Stage(const StageConfig& config, const parallel::TensorRegion& region,
             Device device, const parallel::ExpertAxes& axes, Param* table)
    : config_(config),
      region_(region),
      rotary_(config.model, config.blocks, text_lengths(config), config.dtype, device) {
  const ModelConfig& m = config.model;
  if (config.first) {
    auto embedding = embedding_config(m);
    embedding.table_uses = m.tie_embeddings && config.ends_together ? 2 : 1;
    embedding.in_embedding_group = m.tie_embeddings && !config.ends_together;
    embedding_.emplace(embedding, region);
    table = &embedding_->table();
  }
  std::vector<nn::Fp8Operands*> layers, coded;
  for (std::int64_t layer = config.blocks.begin; layer < config.blocks.end; ++layer) {
    nn::BlockConfig block = block_config(m, layer);
    if (layer >= config.fp8_blocks.begin && layer < config.fp8_blocks.end) {
      block.attention.products = block.mlp.products = config.products;
      if (block.latent) block.latent->products = config.products;
      if (block.moe) block.moe->products = config.products;
    }
    blocks_.push_back(std::make_unique<nn::Block>(block, region, rotary_.of(m, layer),
                                                  axes, config.dtype, device));
    blocks_.back()->attach(config.adapter);
    if (block.attention.products.one_scale()) blocks_.back()->collect(layers);
    if (block.attention.products.fp8()) blocks_.back()->collect(coded);
  }
  if (config.keep_weight_codes) codes_.emplace(coded, device);
  if (!layers.empty()) scales_.emplace(layers, config.scaling, region, device);
  if (config.last) {
    auto head = head_config(m, config.z_loss);
    head.chunks = config.head_chunks;
    const bool tied_here = m.tie_embeddings && config.ends_together;
    require(!tied_here || table != nullptr, "a tied head needs the embedding's table");
    head.in_embedding_group = m.tie_embeddings && !config.ends_together;
    if (head.in_embedding_group) head.name = embedding_config(m).tokens;
    head_.emplace(head, region, tied_here ? table : nullptr);
  }
}

Stage::Saved Stage::make_saved() const {
  Saved saved;
  saved.blocks.resize(blocks_.size());
  saved.inputs_TD.resize(blocks_.size());
  return saved;
}

bool Stage::partitions(std::size_t i) const {
  if (i >= blocks_.size()) return false;
  const nn::Recompute recompute = recompute_of(i);
  return recompute.full && recompute.partition && region_.divided() && !region_.gathers();
}

int Stage::module_of(std::size_t block) const {
  return config_.first_module + static_cast<int>(block) + (embedding_ ? 1 : 0);
}

TensorView Stage::forward(nn::Pass& pass, const TensorView& input, Saved& saved) const {
  const Shape shape = {region_.outside_rows(pass.tokens()).count(), config_.model.hidden};
  const ArenaScope scope(pass.scratch);
  // Activations of which only a part is kept take turns in two places.
  std::array<TensorView, 2> turns;
  std::size_t turn = 0;
  const auto output_for = [&](std::size_t reader) {
    if (!partitions(reader)) {
      ActivationStorage* const storage = storage_of(reader, saved);
      return storage ? storage->input(pass.stream, reader, config_.dtype, shape)
                     : pass.saved.take(config_.dtype, shape, "stage.x");
    }
    TensorView& place = turns[turn++ % 2];
    if (place.shape().rank() == 0) {
      place = pass.scratch.take(config_.dtype, shape, "stage.x");
    }
    return place;
  };
  TensorView x_TD = input;
  rotary_.prepare(pass.stream, config_.model, pass.microbatch.text_length);
  // 1. embedding
  if (embedding_) {
    x_TD = output_for(0);
    weights_->fetch(config_.first_module, Direction::forward);
    embedding_->forward(pass, input, x_TD, saved.embedding);
    weights_->release(config_.first_module);
  }
  // 2. blocks
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const TensorView y_TD = output_for(i + 1);
    weights_->fetch(module_of(i), Direction::forward);
    forward_block(pass, i, x_TD, y_TD, saved);
    weights_->release(module_of(i));
    x_TD = y_TD;
  }
  saved.output_TD = x_TD;
  return x_TD;
}

nn::Recompute Stage::recompute_of(std::size_t i) const {
  const std::int64_t layer = config_.blocks.begin + static_cast<std::int64_t>(i);
  return layer < config_.recompute_layers ? config_.recompute : nn::Recompute{};
}

ActivationStorage* Stage::storage_of(std::size_t i, const Saved& saved) const {
  return saved.kept != nullptr && i < saved.kept->moved() ? saved.kept : nullptr;
}

void Stage::forward_block(nn::Pass& pass, std::size_t i, const TensorView& x_TD,
                          const TensorView& y_TD, Saved& saved) const {
  ActivationStorage* const storage = storage_of(i, saved);
  Arena& kept = storage ? storage->open(pass.stream, i) : pass.saved;
  run_block(pass.with_saved(kept), i, x_TD, y_TD, saved);
  if (storage) storage->offload(pass.stream, i);
}

void Stage::run_block(nn::Pass pass, std::size_t i, const TensorView& x_TD,
                      const TensorView& y_TD, Saved& saved) const {
  if (!recompute_of(i).full) {
    pass.recompute = recompute_of(i);
    blocks_[i]->forward(pass, x_TD, y_TD, saved.blocks[i]);
    return;
  }
  saved.inputs_TD[i] = x_TD;
  if (partitions(i)) {
    const Range mine = region_.part(x_TD.dim(0));
    const TensorView part_TD =
        pass.saved.take(x_TD.dtype(), {mine.count(), x_TD.dim(1)}, "stage.part");
    kernels::copy(pass.stream, x_TD.rows(mine.begin, mine.count()), part_TD);
    saved.inputs_TD[i] = part_TD;
  }
  nn::Pass inner = pass.with_saved(*pass.recomputed);
  blocks_[i]->forward(inner, x_TD, y_TD, saved.blocks[i]);
  pass.recomputed->reset();
}

void Stage::loss(nn::Pass& pass, const TensorView& targets_T,
                 const kernels::LossScale& scale, Saved& saved) {
  const int module = module_of(blocks_.size());
  weights_->fetch(module, Direction::forward);
  pass.weight_gradients.open(module);
  head_->forward(pass, saved.output_TD, targets_T, scale, saved.head);
  pass.weight_gradients.close();
  weights_->release(module);
}

void Stage::evaluate(nn::Pass& pass, const TensorView& targets_T, const Saved& saved,
                     const nn::Head::EachChunk& each) const {
  const int module = module_of(blocks_.size());
  weights_->fetch(module, Direction::forward);
  head_->evaluate(pass, saved.output_TD, targets_T, each);
  weights_->release(module);
}

TensorView Stage::logits(nn::Pass& pass, const TensorView& x_RD) const {
  const int module = module_of(blocks_.size());
  weights_->fetch(module, Direction::forward);
  const TensorView logits_RV = head_->logits(pass, x_RD);
  weights_->release(module);
  return logits_RV;
}

void Stage::backward(nn::Pass& pass, const TensorView& dy_TD, const TensorView& dx_TD,
                     const Saved& saved) {
  const ArenaScope scope(pass.scratch);
  const Shape shape = saved.output_TD.shape();
  const bool deferred = pass.weight_gradients.deferred();
  TensorView d_TD = head_ ? saved.head.dx_TD : dy_TD;
  if (deferred && !head_) {  // the weight gradients still read it when its memory is gone
    d_TD = pass.saved.take(config_.dtype, shape, "stage.dy");
    kernels::copy(pass.stream, dy_TD, d_TD);
  }
  // 2. blocks; the gradient is rewritten in place where nothing reads it later
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const TensorView dinput_TD =
        deferred ? pass.saved.take(config_.dtype, shape, "stage.dx") : d_TD;
    if (ActivationStorage* const storage = storage_of(i, saved))
      storage->reload(pass.stream, i);
    weights_->fetch(module_of(i), Direction::backward);
    pass.weight_gradients.open(module_of(i));
    backward_block(pass, i, d_TD, dinput_TD, saved);
    pass.weight_gradients.close();
    weights_->release(module_of(i));
    d_TD = dinput_TD;
  }
  // 1. embedding
  if (embedding_) {
    pass.weight_gradients.open(config_.first_module);
    embedding_->backward(pass, d_TD, saved.embedding);
    pass.weight_gradients.close();
  } else {
    kernels::copy(pass.stream, d_TD, dx_TD);
  }
}

void Stage::backward_block(nn::Pass& pass, std::size_t i, const TensorView& dy_TD,
                           const TensorView& dx_TD, const Saved& saved) {
  nn::Pass inner = pass.with_saved(pass.saved);
  if (!recompute_of(i).full) {
    blocks_[i]->backward(inner, dy_TD, saved.blocks[i], dx_TD);
    return;
  }
  // Forward once more. Deferred weight gradients read its results later.
  const ArenaScope scope(pass.scratch);
  const bool deferred = pass.weight_gradients.deferred();
  nn::Pass again = pass.with_saved(deferred ? pass.saved : *pass.recomputed);
  TensorView x_TD = saved.inputs_TD[i];
  if (partitions(i)) x_TD = region_.gather_rows(pass.stream, again.saved, x_TD);
  const TensorView y_TD = pass.scratch.take(x_TD.dtype(), x_TD.shape(), "stage.y");
  nn::Block::Saved recomputed;
  blocks_[i]->forward(again, x_TD, y_TD, recomputed);
  blocks_[i]->backward(inner, dy_TD, recomputed, dx_TD);
  if (!deferred) pass.recomputed->reset();
}

std::vector<ParamModule> Stage::modules() {
  std::vector<ParamModule> modules;
  if (embedding_) {
    modules.push_back({"embedding", {}});
    embedding_->collect(modules.back().params);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const auto layer = config_.blocks.begin + static_cast<std::int64_t>(i);
    modules.push_back({"block " + std::to_string(layer), {}});
    blocks_[i]->collect(modules.back().params);
  }
  if (head_) {
    modules.push_back({"head", {}});
    head_->collect(modules.back().params);
    if (head_->tied() != nullptr) modules.back().params.push_back(head_->tied());
  }
  return modules;
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
  for (nn::Moe* moe : moe_layers()) moe->collect(states);
  if (scales_) scales_->collect(states);
  return states;
}

std::vector<nn::Moe*> Stage::moe_layers() {
  std::vector<nn::Moe*> layers;
  for (const auto& block : blocks_)
    if (nn::Moe* moe = block->moe()) layers.push_back(moe);
  return layers;
}

std::size_t Stage::table_bytes() const {
  std::size_t bytes = rotary_.bytes();
  if (scales_) bytes += scales_->bytes();
  if (codes_) bytes += codes_->bytes();
  for (const auto& block : blocks_)
    if (const nn::Moe* moe = block->moe()) bytes += moe->table_bytes();
  return bytes;
}

}  // namespace trireme::model
