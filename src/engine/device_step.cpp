// Engine: the rest of a step that its GPU judges, and for which the host waits once.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "engine/engine.hpp"
#include "optim/learning_rate.hpp"

namespace trireme::engine {

// Sums over ranks, norm, clipping and the verdict are the GPU's, which the update reads:
// the host queues all of it, and learns at the end what became of the step. Its own sums
// of the same numbers must agree.
void Engine::finish_by_device(StepInProgress& step, const kernels::StepLimits& limits) {
  StepObserver& observer = step.observer;
  Stream stream(device_);
  // 1. what is left of the reductions; what the ranks add up
  parts_.mark(stream);
  observer.enter(StepPhase::reduce, step.result.step);
  finish_gradients();
  decision_->decide(stream, executor_->loss(), *store_, step.items, limits);
  // 2. the update
  parts_.mark(stream);
  observer.enter(StepPhase::update, step.result.step);
  observer.before_update();
  const std::int64_t number = step.result.step;
  step.result.learning_rate = optim::learning_rate(config_.optimizer, number);
  store_->update(config_.optimizer,
                 {.learning_rate = step.result.learning_rate,
                  .schedule = optim::schedule_factor(config_.optimizer, number),
                  .update = updates_until(number),
                  .decision = decision_->decision()});
  model_.weights_updated();
  decision_->bring(stream);
  parts_.mark(stream);
  // 3. what became of it
  stream.synchronize();
  executor_->finish_times();
  StepTotals::Work work{executor_->times().run_seconds(),
                        executor_->times().busy_seconds(), 0.0};
  observer.device_took(
      {parts_.seconds(0, 1), parts_.seconds(1, 2), parts_.seconds(2, 3)});
  // Up to the end of backward: what the host has seen, without what the GPU did since.
  if (step.work_is_alike)
    work.own = std::max(step.clock.seconds() - parts_.seconds(1, 3), 0.0);
  StepTotals::Outcome mine;
  mine.loss = decision_->own_loss() / step.items;
  mine.squares = decision_->own_squares();
  if (config_.parallel.expert_memory > 0) mine.rounds = expert_loads_.rounds();
  observer.computed(mine);
  const StepTotals::Outcome all = totals_.finish(mine, work);
  observer.agreed(all);
  step.result.loss = all.loss;
  step.result.gradient_norm = std::sqrt(all.squares);
  if (config_.learns_pairs()) step.result.pairs = mean_of_pairs(step.items);
  // 4. the host's verdict, which must be the GPU's
  decision_->compare(step.result.step, all.loss, step.result.gradient_norm);
  const bool accepted = observer.accepts(step.result, mine.loss);
  require(accepted == decision_->is_sound(),
          "step {} was judged by the GPU to be {}, and by the host otherwise",
          step.result.step, decision_->is_sound() ? "sound" : "unsound");
  if (!accepted) {
    step.result.update = StepResult::Update::refused;
    if (refused_) refused_->add();
  }
  reports_->finish_stored();
  fp8_scales_.finish_step();
}

}  // namespace trireme::engine
