// ExpertLoads: the sum over the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "engine/expert_loads.hpp"

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::engine {

ExpertLoads::ExpertLoads(const model::ModelConfig& config, comm::Mesh& mesh,
                         RankModel& model, Device device)
    : config_(config), mesh_(mesh), model_(model), device_(device) {
  if (!config.has_experts()) return;
  loads_ = Buffer(device, DType::f64, {config.layers * config.moe.experts + 2},
                  MemoryClass::workspace, "expert loads");
  on_host_.assign(static_cast<std::size_t>(loads_.view().elements()), 0.0);
}

// body: takes an MoE layer and the part of the loads that is its own.
template <class Body>
void ExpertLoads::for_each_layer(const Body& body) {
  const std::int64_t E = config_.moe.experts;
  for (RankModel::Chunk& chunk : model_.chunks()) {
    std::int64_t layer = chunk.stage->config().blocks.begin;
    for (nn::Moe* moe : chunk.stage->moe_layers()) {
      while (!config_.is_moe(layer)) ++layer;
      body(*moe, loads_.view().rows(layer * E, E));
      ++layer;
    }
  }
}

void ExpertLoads::sum() {
  if (!config_.has_experts()) return;
  const TensorView all = loads_.view();
  const TensorView losses = all.rows(config_.layers * config_.moe.experts, 2);
  Stream stream(device_);
  kernels::fill(stream, all, 0.0);
  for_each_layer([&](nn::Moe& moe, const TensorView& load_E) {
    kernels::copy(stream, moe.load(), load_E);
    kernels::accumulate(stream, moe.losses(), losses);
  });
  mesh_.replicas().all_reduce(stream, all).wait();
  mesh_.group(comm::Axis::pipeline).all_reduce(stream, all).wait();
  for_each_layer([&](nn::Moe& moe, const TensorView& load_E) {
    kernels::copy(stream, load_E, moe.load());
  });
  copy_bytes(stream, all, TensorView(on_host_.data(), DType::f64, all.shape()));
}

std::span<const double> ExpertLoads::loads() const {
  if (on_host_.empty() || device_.is_meta()) return {};
  return std::span(on_host_).first(on_host_.size() - 2);
}

parallel::ExpertRounds ExpertLoads::rounds() {
  parallel::ExpertRounds all;
  if (config_.has_experts())
    for_each_layer([&](nn::Moe& moe, const TensorView&) { all.add(moe.rounds()); });
  return all;
}

nn::RouterLosses ExpertLoads::losses() const {
  if (on_host_.empty() || device_.is_meta()) return {};
  return {on_host_.end()[-2], on_host_.end()[-1]};
}

}  // namespace trireme::engine
