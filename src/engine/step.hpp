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
// faults, tests. Every function is called once in each step, on every rank, in the order
// in which they stand here; collectives in them are allowed.
//
// A step may be computed twice from the same weights (runs_twice(), doubts()): then its
// phases are entered a second time, and the two functions for this are called.
//
// Where a GPU judges the step by itself (engine/device_decision.hpp), and limits() are
// given, the host queues all of it before it waits: before_update() then comes before
// device_took(), computed(), agreed() and accepts(), and gradients_ready() is left out.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void enter(StepPhase, std::int64_t /*step*/) {}
  // What accepts() will say, as far as loss and norm tell; null where the step's numbers
  // must be seen, or are changed, on the host before its update. Alike on all ranks.
  virtual std::optional<kernels::StepLimits> limits(std::int64_t /*step*/) {
    return kernels::StepLimits{};
  }
  // What this rank's gradients are multiplied by, as a fault that is injected.
  virtual double gradient_factor() { return 1.0; }
  // Whether a bit of them is to be flipped, another fault: in the step's first run alone.
  virtual bool flips_gradient() { return false; }
  // Whether the step is computed twice whatever comes of it, so that each rank's own
  // gradients are compared, too. On CPUs alone, as is doubts(); alike on all ranks.
  virtual bool runs_twice(std::int64_t /*step*/) { return false; }
  // How long the GPU took, where it judges the step.
  virtual void device_took(const DeviceTimes&) {}
  // Gradients of this rank's microbatches are there. `mine` has the rank's part of the
  // loss, and takes what the ranks agree on besides.
  virtual void computed(StepTotals::Outcome& /*mine*/) {}
  // `all`: what the ranks agreed on.
  virtual void agreed(const StepTotals::Outcome& /*all*/) {}
  // Whether the step is computed again because of what came of it. Alike on all ranks.
  virtual bool doubts(const StepResult&) { return false; }
  // As computed(), of the second run.
  virtual void computed_again(StepTotals::Outcome& /*mine*/) {}
  // What this rank's second run of the step did not do like the first. The gradients in
  // the store are those of the second.
  virtual void ran_twice(std::int64_t /*step*/, const StepDifference&) {}
  // The gradients in the store are whole and unclipped, times loss_scale.
  virtual void gradients_ready(double /*loss_scale*/) {}
  // Whether the step may update the weights. own_loss: this rank's part of the loss.
  // Every rank must answer alike. Not called when fp16 overflowed.
  virtual bool accepts(const StepResult&, double /*own_loss*/) { return true; }
  // Weights and the optimizer's state are about to change.
  virtual void before_update() {}
};

// Several observers, asked one after the other. The step is accepted if all accept it;
// the first that does not is the last one asked.
class StepObservers : public StepObserver {
 public:
  explicit StepObservers(std::vector<StepObserver*> all) : all_(std::move(all)) {}

  void enter(StepPhase phase, std::int64_t step) override {
    for (StepObserver* one : all_) one->enter(phase, step);
  }
  std::optional<kernels::StepLimits> limits(std::int64_t step) override {
    kernels::StepLimits all;
    bool are_given = true;
    for (StepObserver* one : all_) {
      const auto its = one->limits(step);
      are_given = are_given && its;
      if (!its) continue;
      all.finite = all.finite || its->finite;
      all.largest_norm = std::min(all.largest_norm, its->largest_norm);
    }
    return are_given ? std::optional(all) : std::nullopt;
  }
  double gradient_factor() override {
    double factor = 1.0;
    for (StepObserver* one : all_) factor *= one->gradient_factor();
    return factor;
  }
  bool flips_gradient() override {
    bool any = false;
    for (StepObserver* one : all_) any = one->flips_gradient() || any;
    return any;
  }
  bool runs_twice(std::int64_t step) override {
    bool any = false;
    for (StepObserver* one : all_) any = one->runs_twice(step) || any;
    return any;
  }
  void device_took(const DeviceTimes& times) override {
    for (StepObserver* one : all_) one->device_took(times);
  }
  void computed(StepTotals::Outcome& mine) override {
    for (StepObserver* one : all_) one->computed(mine);
  }
  void agreed(const StepTotals::Outcome& all) override {
    for (StepObserver* one : all_) one->agreed(all);
  }
  bool doubts(const StepResult& result) override {
    bool any = false;
    for (StepObserver* one : all_) any = one->doubts(result) || any;
    return any;
  }
  void computed_again(StepTotals::Outcome& mine) override {
    for (StepObserver* one : all_) one->computed_again(mine);
  }
  void ran_twice(std::int64_t step, const StepDifference& difference) override {
    for (StepObserver* one : all_) one->ran_twice(step, difference);
  }
  void gradients_ready(double loss_scale) override {
    for (StepObserver* one : all_) one->gradients_ready(loss_scale);
  }
  bool accepts(const StepResult& result, double own_loss) override {
    for (StepObserver* one : all_)
      if (!one->accepts(result, own_loss)) return false;
    return true;
  }
  void before_update() override {
    for (StepObserver* one : all_) one->before_update();
  }

 private:
  std::vector<StepObserver*> all_;
};

}  // namespace trireme::engine
