// Steps of an engine whose gradients a test looks at.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "engine/engine.hpp"
#include "engine/step.hpp"

namespace trireme::test {

// Looks at the gradients of a step, whole and unclipped, times `loss_scale`; the weights
// are updated afterwards if `updates`.
class AtGradients : public engine::StepObserver {
 public:
  using Look = std::function<void(double loss_scale)>;
  explicit AtGradients(Look look = {}, bool updates = false)
      : look_(std::move(look)), updates_(updates) {}

  // What this rank's gradients are multiplied by.
  double factor = 1.0;
  // This rank's part of the loss of the last step.
  double own_loss = 0;

  // Gradients are looked at before the update.
  std::optional<kernels::StepLimits> limits(std::int64_t) override {
    return std::nullopt;
  }
  double gradient_factor() override { return factor; }
  void computed(engine::StepTotals::Outcome& mine) override { own_loss = mine.loss; }
  void gradients_ready(double loss_scale) override {
    if (look_) look_(loss_scale);
  }
  bool accepts(const engine::StepResult&, double) override { return updates_; }

 private:
  Look look_;
  bool updates_;
};

// A step without its update, in which `look` sees the gradients.
inline engine::StepResult gradients_of_step(engine::Engine& engine,
                                            const engine::Batch& batch,
                                            const std::function<void()>& look) {
  AtGradients observer([&](double) {
    if (look) look();
  });
  return engine.train_step(batch, observer);
}

}  // namespace trireme::test
