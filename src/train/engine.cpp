// Engine: building the model and running microbatches.
// SPDX-License-Identifier: Apache-2.0
#include "train/engine.hpp"

#include <algorithm>

namespace trireme::train {
namespace {

model::StageConfig stage_config(const RunConfig& config) {
  return {.model = config.model,
          .blocks = {0, config.model.layers},
          .first = true,
          .last = true,
          .dtype = config.precision.compute,
          .z_loss = config.z_loss,
          .positions = 0};
}

}  // namespace

Engine::Engine(const RunConfig& config, comm::Mesh& mesh, Device device)
    : config_(config),
      device_(device),
      region_(mesh.group(comm::Axis::tensor), config.parallel.sequence),
      stage_(stage_config(config), region_, device),
      positions_(device, DType::i32, {config.batch.micro * config.model.sequence},
                 MemoryClass::workspace, "positions") {
  const optim::StoreConfig store{config.precision.compute, config.precision.accumulate,
                                 config.optimizer.kind, config.parallel.bucket_bytes,
                                 true};
  store_.emplace(stage_.parameters(), store, mesh, device);
  if (!device.is_meta()) {
    auto positions = positions_.view().span<std::int32_t>();
    for (std::size_t t = 0; t < positions.size(); ++t) {
      positions[t] =
          static_cast<std::int32_t>(t % static_cast<std::size_t>(config.model.sequence));
    }
  }
  demand_ = measure(*this);
  const auto live = live_microbatches(one_stage_schedule(config.microbatches()));
  for (std::int64_t i = 0; i < live; ++i) {
    live_.push_back(
        {Arena(device, demand_.saved, MemoryClass::activations, "activations"),
         stage_.make_saved()});
  }
  scratch_.emplace(device, demand_.scratch, MemoryClass::workspace, "scratch");
}

// Runs forward, backward and evaluation of one microbatch on meta arenas; the weights
// stay as they are, for kernels and collectives on a meta stream do nothing.
ActivationDemand Engine::measure(Engine& engine) {
  const Device meta = Device::meta();
  Stream stream(meta);
  nn::WeightGradients gradients;
  Live live{Arena(meta, 0, MemoryClass::activations, "activations"),
            engine.stage_.make_saved()};
  Arena scratch(meta, 0, MemoryClass::workspace, "scratch");
  const std::int64_t tokens = engine.config_.batch.micro * engine.config_.model.sequence;
  const TensorView ids_T(nullptr, DType::i32, {tokens}, meta);
  engine.forward_and_loss(stream, live, scratch, gradients, ids_T, ids_T, 1.0);
  engine.backward(stream, live, scratch, gradients);
  live.saved.reset();
  nn::Pass pass = engine.pass(stream, live.saved, scratch, gradients);
  engine.stage_.forward(pass, ids_T, live.views);
  engine.stage_.evaluate(pass, ids_T, live.views);
  return {live.saved.peak_bytes(), scratch.peak_bytes()};
}

nn::Pass Engine::pass(Stream& stream, Arena& saved, Arena& scratch,
                      nn::WeightGradients& gradients) {
  return {stream,
          saved,
          scratch,
          gradients,
          attention_,
          config_.batch.micro,
          config_.model.sequence,
          positions_.view()};
}

double Engine::forward_and_loss(Stream& stream, Live& live, Arena& scratch,
                                nn::WeightGradients& gradients,
                                const TensorView& inputs_T, const TensorView& targets_T,
                                double scale) {
  nn::Pass p = pass(stream, live.saved, scratch, gradients);
  stage_.forward(p, inputs_T, live.views);
  return stage_.loss(p, targets_T, scale, live.views);
}

void Engine::backward(Stream& stream, Live& live, Arena& scratch,
                      nn::WeightGradients& gradients) {
  const ArenaScope scope(scratch);
  nn::Pass p = pass(stream, live.saved, scratch, gradients);
  stage_.backward(p, {}, live.views);
}

double Engine::run(const Schedule& schedule, const std::vector<TensorView>& inputs,
                   const std::vector<TensorView>& targets, double scale) {
  Stream stream(device_);
  nn::WeightGradients gradients([this](Param& param) {
    store_->ready(param);
    store_->progress();
  });
  double loss = 0;
  for (const Action& action : schedule) {
    const auto m = static_cast<std::size_t>(action.microbatch);
    Live& live = live_[m % live_.size()];
    if (action.kind == ActionKind::forward) {
      live.saved.reset();
      loss += forward_and_loss(stream, live, *scratch_, gradients, inputs[m], targets[m],
                               scale);
    } else {
      backward(stream, live, *scratch_, gradients);
    }
  }
  return loss;
}

double Engine::evaluate(const TensorView& inputs_T, const TensorView& targets_T,
                        const nn::Head::EachChunk& each) {
  Stream stream(device_);
  nn::WeightGradients none;
  Live& live = live_.front();
  live.saved.reset();
  nn::Pass p = pass(stream, live.saved, *scratch_, none);
  stage_.forward(p, inputs_T, live.views);
  return stage_.evaluate(p, targets_T, live.views, each);
}

std::size_t Engine::activation_bytes() const {
  std::size_t sum = 0;
  for (const Live& live : live_) sum += live.saved.capacity();
  return sum;
}

std::size_t Engine::workspace_bytes() const {
  return scratch_->capacity() + positions_.bytes() + stage_.table_bytes();
}

}  // namespace trireme::train
