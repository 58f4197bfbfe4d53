// Engine: one training step, in its order.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/device_memory.hpp"
#include "base/log.hpp"
#include "comm/meta_group.hpp"
#include "config/precision.hpp"
#include "engine/engine.hpp"
#include "kernels/elementwise.hpp"
#include "optim/learning_rate.hpp"

namespace trireme::engine {
namespace {

// Sums over all ranks of what one class has lost; of scales the largest.
std::vector<RoundingLosses> summed(comm::Group& everyone,
                                   std::span<const RoundingLosses> mine) {
  std::vector<double> sums, scales;
  for (const RoundingLosses& losses : mine) {
    sums.insert(sums.end(), {losses.elements, losses.saturated, losses.flushed});
    scales.push_back(losses.scale);
  }
  const auto view = [](std::vector<double>& x) {
    return TensorView(x.data(), DType::f64, {static_cast<std::int64_t>(x.size())});
  };
  Stream host;
  everyone.all_reduce(host, view(sums)).wait();
  everyone.all_reduce(host, view(scales), comm::Reduce::max).wait();
  std::vector<RoundingLosses> all;
  for (std::size_t i = 0; i < scales.size(); ++i)
    all.push_back({sums[3 * i], sums[3 * i + 1], sums[3 * i + 2], scales[i]});
  return all;
}

}  // namespace

StepResult Engine::train_step(const Batch& batch, StepObserver& observer) {
  StepResult result{.step = batch.step};
  // 1. the real tokens of the global batch: loss and gradients are means over them
  observer.enter(StepPhase::count, batch.step);
  const double tokens = totals_.tokens(static_cast<double>(batch.valid_tokens));
  // 2. forwards and backwards; buckets are reduced as they fill
  observer.enter(StepPhase::compute, batch.step);
  const double scale = scaler_ ? scaler_->scale() : 1.0;
  begin_step(batch.step);
  StepTotals::Outcome mine;
  mine.loss = run(batch, 1.0 / tokens, scale * observer.gradient_factor()) / tokens;
  // 3. what is left of the reductions; what the ranks add up and agree on
  observer.enter(StepPhase::reduce, batch.step);
  finish_gradients();
  observer.computed(mine);
  const StepTotals::Outcome all = totals_.finish(mine, {run_seconds(), busy_seconds()});
  observer.agreed(all);
  // 4. norm, clipping, update
  observer.enter(StepPhase::update, batch.step);
  result.loss = all.loss;
  result.tokens = static_cast<std::int64_t>(tokens);
  result.gradient_norm = store_->gradient_norm() / scale;
  const std::int64_t number = update_number(batch.step);
  result.learning_rate = optim::learning_rate(config_.optimizer, number);
  observer.gradients_ready(scale);
  if (overflows(result)) {
    result.update = StepResult::Update::overflow;
  } else if (!observer.accepts(result, mine.loss)) {
    result.update = StepResult::Update::refused;
  }
  if (result.update == StepResult::Update::done) {
    observer.before_update();
    update(result, scale, number);
  } else {
    store_->clear_gradients();
  }
  finish_stored_report();
  Stream(device_).synchronize();  // so that an observer's times are the device's
  observer.enter(StepPhase::finished, batch.step);
  return result;
}

// Gradients and expert loads from zero.
void Engine::begin_step(std::int64_t step) {
  const bool report =
      !device_.is_meta() && config::fp8_report_due(config_.precision, step);
  store_->begin_step(config_.microbatches());
  reporting_ = report && fp8_report_.has_value();
  Stream stream(device_);
  if (reporting_) fp8_report_->clear(stream);
  store_->report().begin(stream, report);
  for (Chunk& chunk : chunks_) {
    for (nn::Moe* moe : chunk.stage->moe_layers()) moe->clear_step();
    if (nn::Fp8State* scales = chunk.stage->scales()) scales->begin_step(stream);
  }
}

// Runs the schedule. Gradients of loss sum * scale * loss_scale are added in the store.
// Returns the sum of the losses of this rank's tokens, which is 0 but on the last stage;
// 0 on meta.
double Engine::run(const Batch& batch, double scale, double loss_scale) {
  return execute(schedule_,
                 {batch.inputs, batch.targets, scale, true, nullptr, loss_scale});
}

void Engine::finish_gradients() {
  store_->finish_gradients();
  finish_scales();
  finish_report();
  if (config_.model.has_experts()) sum_expert_loads();
  Stream(device_).synchronize();
}

// Steps that overflowed are none for the optimizer and its schedule.
std::int64_t Engine::update_number(std::int64_t step) const {
  return step - (scaler_ ? scaler_->skipped() : 0);
}

// With fp16: whether the step's numbers left its range. Moves the loss scale.
bool Engine::overflows(const StepResult& result) {
  if (!scaler_) return false;
  if (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) {
    scaler_->succeeded();
    return false;
  }
  const double scale = scaler_->scale();
  if (!scaler_->overflowed())
    throw comm::Agreed(
        Status::diverged,
        format(
            "step {}: fp16 overflows (loss {}, gradient norm {}) at a loss scale of {}, "
            "the lowest: train with precision.compute = \"bf16\", or resume from the "
            "last checkpoint with a lower optimizer.learning_rate",
            result.step, result.loss, result.gradient_norm, scale));
  log::info("step {}: overflow at a loss scale of {}; the update is skipped", result.step,
            scale);
  return true;
}

// Of the weights, and of the routers' biases.
void Engine::update(const StepResult& result, double loss_scale, std::int64_t number) {
  const double clip = config_.optimizer.clip, norm = result.gradient_norm;
  const double factor = clip > 0 && norm > clip ? clip / norm : 1.0;
  store_->update(config_.optimizer, result.learning_rate, factor / loss_scale, number);
  for (Chunk& chunk : chunks_) {
    for (nn::Moe* moe : chunk.stage->moe_layers()) moe->update_bias();
    if (nn::Fp8State* scales = chunk.stage->scales()) scales->weights_changed();
  }
}

// Every MoE layer learns the load of the global batch, every rank that of all layers.
void Engine::sum_expert_loads() {
  const std::int64_t E = config_.model.moe.experts;
  const TensorView all = loads_.view();
  Stream stream(device_);
  kernels::fill(stream, all, 0.0);
  const auto for_each = [&](const auto& body) {
    for (Chunk& chunk : chunks_) {
      std::int64_t layer = chunk.stage->config().blocks.end -
                           static_cast<std::int64_t>(chunk.stage->moe_layers().size());
      for (nn::Moe* moe : chunk.stage->moe_layers()) {
        body(*moe, all.rows(layer * E, E));
        ++layer;
      }
    }
  };
  for_each([&](nn::Moe& moe, const TensorView& load_E) {
    kernels::copy(stream, moe.load(), load_E);
    kernels::accumulate(stream, moe.losses(), all.rows(config_.model.layers * E, 2));
  });
  mesh_.replicas().all_reduce(stream, all).wait();
  pipeline_.all_reduce(stream, all).wait();
  for_each([&](nn::Moe& moe, const TensorView& load_E) {
    kernels::copy(stream, load_E, moe.load());
  });
  copy_bytes(stream, all, TensorView(loads_on_host_.data(), DType::f64, all.shape()));
}

// Delayed scaling: magnitudes of the whole tensors of the global batch. A reduction by
// max may lose NaNs, so they travel as infinities, which the rule treats alike.
void Engine::finish_scales() {
  for (Chunk& chunk : chunks_) {
    nn::Fp8State* scales = chunk.stage->scales();
    if (scales == nullptr || scales->amaxes() == 0) continue;
    const TensorView amax_N = amaxes_.view().rows(0, scales->amaxes());
    Stream stream(device_), host(amax_N.device());
    if (!device_.is_meta()) {
      scales->read(stream, amax_N);
      for (float& amax : amax_N.span<float>())
        if (std::isnan(amax)) amax = std::numeric_limits<float>::infinity();
    }
    mesh_.group(comm::Axis::tensor).all_reduce(host, amax_N, comm::Reduce::max).wait();
    mesh_.replicas().all_reduce(host, amax_N, comm::Reduce::max).wait();
    if (!device_.is_meta()) scales->finish_step(stream, amax_N);
  }
}

void Engine::finish_report() {
  fp8_losses_.clear();
  if (!reporting_) return;
  reporting_ = false;
  Stream stream(device_);
  const auto mine = fp8_report_->read(stream);
  fp8_losses_ = summed(mesh_.everyone(), mine);
}

void Engine::finish_stored_report() {
  stored_losses_.clear();
  if (!store_->report().counting()) return;
  Stream stream(device_);
  const auto mine = store_->report().end(stream);
  stored_losses_ = summed(mesh_.everyone(), mine);
}

void Engine::refresh_scales() {
  Stream stream(device_);
  for (Chunk& chunk : chunks_)
    if (nn::Fp8State* scales = chunk.stage->scales()) scales->refresh(stream);
}

}  // namespace trireme::engine
