// What goes into a training step, what comes out of it, and who may watch it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/tensor_view.hpp"
#include "engine/step_print.hpp"
#include "engine/step_totals.hpp"
#include "kernels/math/step_decision.hpp"
#include "nn/pass.hpp"

namespace trireme::engine {

// What one rank trains on in one step. B sequences a microbatch, of whose S tokens a
// context rank holds P: T = B * P. Data ranks take turns with the step's microbatches, so
// the last ones may have one less than the first. They run a stand-in for it, so that all
// ranks come to the same collectives: any tokens, no targets, and nothing of it counts.
struct Batch {
  std::int64_t step = 0;              // from 1 on
  std::vector<TensorView> inputs{};   // of each microbatch, [T] i32, on the host
  std::vector<TensorView> targets{};  // the same; below 0: not counted in the loss
  std::int64_t valid_tokens = 0;      // targets >= 0 of this data rank
  // Of each microbatch, on the host; empty: without documents.
  std::vector<nn::Documents> documents{};
  // The same, where pairs of answers are learned from; and how many pairs begin in what
  // this rank holds.
  std::vector<nn::Answers> answers{};
  std::int64_t pairs = 0;
  std::int64_t stand_ins = 0;       // data ranks whose last microbatch is a stand-in
  bool ends_with_stand_in = false;  // of this rank
};

// What became of a step, the same on every rank.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0;           // mean over the real tokens, or pairs, of the global batch
  double gradient_norm = 0;  // L2, before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;     // real ones of the global batch
  nn::PreferenceSums pairs{};  // means over them, where pairs are learned from
  enum class Update : std::uint8_t { done, overflow, refused };
  Update update = Update::done;  // overflow: of fp16; refused: by an observer
};

// The parts of a step, in their order. A part lasts until the next one is entered.
enum class StepPhase : std::uint8_t {
  count,    // of the real tokens
  compute,  // forward and backward of all microbatches
  reduce,   // what is left of the gradients' reductions; sums over ranks
  update,   // norm, clipping, optimizer
  finished
};

// Seconds of a GPU for the parts of a step of which the host only fills the queue.
struct DeviceTimes {
  double compute = 0, reduce = 0, update = 0;
};

// Watches a step: times, traces, the watchdog, the rules for unsound steps, injected
// faults, tests. Called by Engine::train_step() on every rank, in the order below unless
// a function's comment says otherwise; collectives are allowed. Functions that are called
// only in some steps say when.
//
// A step may be computed twice from the same weights (runs_twice(), doubts()): then its
// phases are entered, and gradient_factor() is called, a second time.
//
// Where a GPU judges the step by itself (engine/device_decision.hpp), and limits() are
// given, the host queues all of it before it waits: before_update() then comes before
// device_took(), computed(), agreed() and accepts(), and gradients_ready() is left out.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Called at the start of each phase, between the other functions.
  virtual void enter(StepPhase, std::int64_t /*step*/) {}
  // What accepts() will say, as far as loss and norm tell; null where the step's numbers
  // must be seen, or are changed, on the host before its update. Alike on all ranks.
  // Called only where a GPU can judge the step.
  virtual std::optional<kernels::StepLimits> limits(std::int64_t /*step*/) {
    return kernels::StepLimits{};
  }
  // Whether the step is computed twice whatever comes of it, so that each rank's own
  // gradients are compared, too. Alike on all ranks. Called only on CPUs, in runs whose
  // steps may be computed twice.
  virtual bool runs_twice(std::int64_t /*step*/) { return false; }
  // Whether a bit of this rank's gradients is flipped, as a fault that is injected: in
  // the step's first run alone.
  virtual bool flips_gradient() { return false; }
  // What this rank's gradients are multiplied by. Only tests override it.
  virtual double gradient_factor() { return 1.0; }
  // How long the GPU took. Called only where it judges the step.
  virtual void device_took(const DeviceTimes&) {}
  // Gradients of this rank's microbatches are there. `mine` has the rank's part of the
  // loss, and takes what the ranks agree on besides.
  virtual void computed(StepTotals::Outcome& /*mine*/) {}
  // What the ranks agreed on is known.
  virtual void agreed(const StepTotals::Outcome&) {}
  // Whether the step is computed again because of what came of it. Alike on all ranks.
  // Called as runs_twice() is, in steps for which that says no.
  virtual bool doubts(const StepResult&) { return false; }
  // The same as computed(), of the second run. Called only when there is one.
  virtual void computed_again(StepTotals::Outcome& /*mine*/) {}
  // What this rank's second run of the step did not do like the first. The gradients in
  // the store are those of the second. Called only when there is one.
  virtual void ran_twice(std::int64_t /*step*/, const StepDifference&) {}
  // The gradients in the store are whole and unclipped, times loss_scale. Not called
  // where a GPU judges the step.
  virtual void gradients_ready(double /*loss_scale*/) {}
  // Whether the step may update the weights. own_loss: this rank's part of the loss.
  // Every rank must answer alike. Not called when fp16 overflowed.
  virtual bool accepts(const StepResult&, double /*own_loss*/) { return true; }
  // Weights and the optimizer's state are about to change. Not called when the host
  // refuses the update or fp16 overflowed; called once more before copies of the model
  // that take steps by themselves are averaged.
  virtual void before_update() {}
};

// Several observers, asked one after the other. The step is accepted if all accept it;
// the first that does not is the last one asked.
class StepObservers : public StepObserver {
 public:
  explicit StepObservers(std::vector<StepObserver*> observers)
      : observers_(std::move(observers)) {}

  void enter(StepPhase phase, std::int64_t step) override {
    for (StepObserver* one : observers_) one->enter(phase, step);
  }
  std::optional<kernels::StepLimits> limits(std::int64_t step) override {
    kernels::StepLimits merged;
    bool are_given = true;
    for (StepObserver* one : observers_) {
      const auto its = one->limits(step);
      are_given = are_given && its;
      if (!its) continue;
      merged.finite = merged.finite || its->finite;
      merged.largest_norm = std::min(merged.largest_norm, its->largest_norm);
    }
    return are_given ? std::optional(merged) : std::nullopt;
  }
  bool runs_twice(std::int64_t step) override {
    bool any = false;
    for (StepObserver* one : observers_) any = one->runs_twice(step) || any;
    return any;
  }
  bool flips_gradient() override {
    bool any = false;
    for (StepObserver* one : observers_) any = one->flips_gradient() || any;
    return any;
  }
  double gradient_factor() override {
    double factor = 1.0;
    for (StepObserver* one : observers_) factor *= one->gradient_factor();
    return factor;
  }
  void device_took(const DeviceTimes& times) override {
    for (StepObserver* one : observers_) one->device_took(times);
  }
  void computed(StepTotals::Outcome& mine) override {
    for (StepObserver* one : observers_) one->computed(mine);
  }
  void agreed(const StepTotals::Outcome& outcome) override {
    for (StepObserver* one : observers_) one->agreed(outcome);
  }
  bool doubts(const StepResult& result) override {
    bool any = false;
    for (StepObserver* one : observers_) any = one->doubts(result) || any;
    return any;
  }
  void computed_again(StepTotals::Outcome& mine) override {
    for (StepObserver* one : observers_) one->computed_again(mine);
  }
  void ran_twice(std::int64_t step, const StepDifference& difference) override {
    for (StepObserver* one : observers_) one->ran_twice(step, difference);
  }
  void gradients_ready(double loss_scale) override {
    for (StepObserver* one : observers_) one->gradients_ready(loss_scale);
  }
  bool accepts(const StepResult& result, double own_loss) override {
    for (StepObserver* one : observers_)
      if (!one->accepts(result, own_loss)) return false;
    return true;
  }
  void before_update() override {
    for (StepObserver* one : observers_) one->before_update();
  }

 private:
  std::vector<StepObserver*> observers_;
};

}  // namespace trireme::engine
