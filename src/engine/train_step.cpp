// Engine: one training step, in its order.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/device_memory.hpp"
#include "base/log.hpp"
#include "engine/engine.hpp"
#include "optim/learning_rate.hpp"

namespace trireme::engine {
namespace {

// Ranks with other experts, or other positions of a ring, have other work.
bool work_is_alike(const config::ParallelSettings& mesh) {
  return mesh.folding.expert == 1 && (mesh.mesh.context == 1 || mesh.ulysses ||
                                      mesh.order == parallel::ContextOrder::zigzag);
}

// Copies of the model that take steps by themselves: a copy's gradient is its part of
// that of the global batch, times so many. Else 1.
int lone_copies(const config::RunConfig& config, const comm::Mesh& mesh) {
  if (!config.optimizer.outer.on()) return 1;
  const bool whole = config.parallel.sharding == optim::Sharding::none;
  return (whole ? mesh.replicas() : mesh.copies()).size();
}

// Where the host waits for a GPU. 0 on meta.
double read(Device device, const TensorView& number_1) {
  Stream stream(device);
  double number = 0;
  copy_bytes(stream, number_1, TensorView(&number, DType::f64, {1}));
  return number;
}

// With fp16: whether the step's numbers left its range. Moves the loss scale.
bool overflows(std::optional<optim::LossScaler>& scaler, const StepResult& result) {
  if (!scaler) return false;
  if (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) {
    scaler->succeeded();
    return false;
  }
  const double scale = scaler->scale();
  if (!scaler->overflowed())
    throw comm::Agreed(
        Status::diverged,
        format(
            "step {}: fp16 overflows (loss {}, gradient norm {}) at a loss scale of {}, "
            "the lowest (precision.loss_scale_floor): train with precision.compute = "
            "\"bf16\", or resume from the "
            "last checkpoint with a lower optimizer.learning_rate",
            result.step, std::abs(result.loss), std::abs(result.gradient_norm), scale));
  log::info("step {}: overflow at a loss scale of {}; the update is skipped", result.step,
            scale);
  return true;
}

}  // namespace

StepResult Engine::train_step(const Batch& batch, StepObserver& observer) {
  // 1. the real tokens of the global batch, or pairs of answers: loss and gradients are
  // means over them
  observer.enter(StepPhase::count, batch.step);
  const double tokens = totals_.tokens(static_cast<double>(batch.valid_tokens));
  const double counted =
      config_.learns_pairs() ? totals_.tokens(static_cast<double>(batch.pairs)) : tokens;
  const double items = std::max(counted, 1.0);  // a batch may have no target
  const auto limits = decision_ ? observer.limits(batch.step) : std::nullopt;
  // 2. forwards and backwards; buckets are reduced as they fill
  StepInProgress step{batch,
                      observer,
                      own_gradients_ && observer.runs_twice(batch.step),
                      items,
                      scaler_ ? scaler_->scale() : 1.0,
                      totals_.work_clock(),
                      work_is_alike(config_.parallel),
                      {.step = batch.step, .tokens = static_cast<std::int64_t>(tokens)}};
  observer.enter(StepPhase::compute, batch.step);
  parts_.reset();
  if (limits) parts_.mark(Stream(device_));
  if (observer.flips_gradient() && own_gradients_) own_gradients_->flip_next();
  compute(step);
  // 3. and 4. reductions, norm, clipping, update
  if (limits) {
    finish_by_device(step, *limits);
  } else {
    finish_by_host(step);
  }
  // 5. copies of the model that take steps by themselves become one again
  drifts_ = config_.optimizer.outer.on();
  if (config_.optimizer.outer.ends_round(batch.step)) average_copies(observer);
  observer.enter(StepPhase::finished, batch.step);
  return step.result;
}

// The host knows loss and norm before the update, for which it waits for a GPU.
void Engine::finish_by_host(StepInProgress& step) {
  StepObserver& observer = step.observer;
  StepResult& result = step.result;
  StepTotals::Outcome mine;
  mine.loss = read(device_, executor_->loss()) / step.items;
  executor_->finish_times();
  const double own_seconds = step.work_is_alike ? step.clock.seconds() : 0.0;
  // 3. what is left of the reductions; what the ranks add up and agree on
  observer.enter(StepPhase::reduce, result.step);
  finish_gradients();
  Stream(device_).synchronize();
  if (config_.parallel.expert_memory > 0) mine.rounds = expert_loads_.rounds();
  observer.computed(mine);
  mine.squares = store_->gradient_squares();
  const StepTotals::Outcome all = totals_.finish(
      mine,
      {executor_->times().run_seconds(), executor_->times().busy_seconds(), own_seconds});
  observer.agreed(all);
  // 4. norm, clipping, update
  observer.enter(StepPhase::update, result.step);
  result.loss = all.loss;
  if (config_.learns_pairs()) result.pairs = mean_of_pairs(step.items);
  // Copies that take steps by themselves share one factor of clipping: that of the root
  // of their norms' mean square.
  result.gradient_norm =
      std::sqrt(all.squares * lone_copies(config_, mesh_)) / step.scale;
  // Steps that overflowed are none for the optimizer and its schedule.
  const std::int64_t number = result.step - (scaler_ ? scaler_->skipped() : 0);
  result.learning_rate = optim::learning_rate(config_.optimizer, number);
  if (own_gradients_ && (step.runs_twice || observer.doubts(result)))
    run_again(step, mine);
  observer.gradients_ready(step.scale);
  if (overflows(scaler_, result)) {
    result.update = StepResult::Update::overflow;
  } else if (!observer.accepts(result, mine.loss)) {
    result.update = StepResult::Update::refused;
    if (refused_) refused_->add();
  }
  if (result.update == StepResult::Update::done) {
    observer.before_update();
    update(result, step.scale, number);
  }
  reports_->finish_stored();
  Stream(device_).synchronize();  // so that an observer's times are the device's
  fp8_scales_.finish_step();
}

// Forward and backward of all microbatches. Gradients, expert loads and counts start from
// zero.
void Engine::compute(const StepInProgress& step) {
  store_->begin_step(static_cast<std::int64_t>(step.batch.inputs.size()));
  reports_->begin_step(step.result.step);
  Stream stream(device_);
  model_.begin_step(stream);
  if (own_gradients_) own_gradients_->begin(step.runs_twice);
  executor_->train(step.batch, 1.0 / step.items,
                   step.scale * step.observer.gradient_factor(), reports_->products());
}

// What is left of the reductions, and what the ranks sum up beside them.
void Engine::finish_gradients() {
  store_->finish_gradients();
  fp8_scales_.bring();
  reports_->finish_products();
  expert_loads_.sum();
}

// What the ranks' pairs tell of the step.
nn::PreferenceSums Engine::mean_of_pairs(double pairs) {
  nn::PreferenceSums all = executor_->pairs();
  totals_.sum(all.values);
  for (double& value : all.values) value /= pairs;
  return all;
}

// Computes the step a second time. All that its update and its end would change is as it
// was when the first run began: weights, moments, histories of scales, biases of routers.
void Engine::run_again(const StepInProgress& step, const StepTotals::Outcome& mine) {
  StepObserver& observer = step.observer;
  const StepPrint first = print_of(mine, *own_gradients_, *store_);
  observer.enter(StepPhase::compute, step.result.step);
  compute(step);
  StepTotals::Outcome again;
  again.loss = read(device_, executor_->loss()) / step.items;
  executor_->finish_times();
  observer.enter(StepPhase::reduce, step.result.step);
  finish_gradients();
  observer.computed_again(again);
  again.squares = store_->gradient_squares();
  observer.ran_twice(step.result.step,
                     difference(first, print_of(again, *own_gradients_, *store_)));
  observer.enter(StepPhase::update, step.result.step);
}

void Engine::average_copies(StepObserver& observer) {
  if (!drifts_) return;
  observer.before_update();
  store_->average_copies();
  model_.weights_changed();
  drifts_ = false;
}

// Of the weights, and of the routers' biases.
// number: of the step in the schedule.
void Engine::update(const StepResult& result, double loss_scale, std::int64_t number) {
  const double factor =
      kernels::math::clipping(config_.optimizer.clip, result.gradient_norm);
  store_->update(config_.optimizer,
                 {.learning_rate = result.learning_rate,
                  .schedule = optim::schedule_factor(config_.optimizer, number),
                  .gradient_scale = factor * lone_copies(config_, mesh_) / loss_scale,
                  .update = updates_until(result.step)});
  model_.weights_updated();
}

// Steps that were passed over, overflowed or were refused are no updates.
std::int64_t Engine::updates_until(std::int64_t step) const {
  return config_.updates_until(step) - (scaler_ ? scaler_->skipped() : 0) -
         (refused_ ? refused_->count() : 0);
}

}  // namespace trireme::engine
