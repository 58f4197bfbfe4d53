// Engine: what one rank of a mesh holds of a training run, and the order of a step.
// SPDX-License-Identifier: Apache-2.0
//
// The trainer builds one on the host or a GPU, the planner the same one on the meta
// device. Its parts: RankModel (the stages), ParameterStore (weights, gradients, the
// optimizer's state), Executor (forward and backward by a schedule), and what the ranks
// sum up besides.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/run_config.hpp"
#include "engine/device_clock.hpp"
#include "engine/device_decision.hpp"
#include "engine/executor.hpp"
#include "engine/expert_loads.hpp"
#include "engine/fp8_scales.hpp"
#include "engine/frozen_base.hpp"
#include "engine/own_gradients.hpp"
#include "engine/rank_model.hpp"
#include "engine/rounding_reports.hpp"
#include "engine/step.hpp"
#include "engine/step_totals.hpp"
#include "optim/loss_scaler.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::engine {

class Engine {
 public:
  // Weights are zero until store().initialize() or a checkpoint is loaded. Allocates all
  // memory a step needs (nothing on meta). The mesh outlives the engine.
  Engine(const config::RunConfig& config, comm::Mesh& mesh, Device device);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // One optimizer step: the only place that knows the order of its parts. On meta it
  // does all that has a size or is sent. Collective over the mesh. Throws
  // Error(diverged), agreed on, when fp16 overflows at the lowest loss scale.
  StepResult train_step(const Batch& batch, StepObserver& observer);
  // Ends the round of optimizer.outer before its time, where copies of the model have
  // taken steps by themselves: what they hold is the same then. Collective over the mesh.
  void average_copies(StepObserver& observer);
  // The sum of the losses of this rank's tokens of one microbatch, without gradients; 0
  // but on the last stage. `each`: see nn::Head::evaluate.
  double evaluate(const TensorView& inputs_T, const TensorView& targets_T,
                  const nn::Head::EachChunk& each = {},
                  const nn::Documents& documents = {});
  // Log-probability of each of the answers in one microbatch, without gradients, the same
  // on every rank of the last stage; empty on the others. With train.objective = "dpo".
  std::vector<double> log_probabilities(const TensorView& inputs_T,
                                        const TensorView& targets_T,
                                        const nn::Documents& documents,
                                        const nn::Answers& answers);

  optim::ParameterStore& store() { return *store_; }
  // Weights that are codes, with adapter.quantize. Training needs load_base() first,
  // which reads them, whatever the others come from.
  const std::optional<FrozenBase>& base() const { return base_; }
  void load_base() {
    if (base_) base_->load();
  }
  StepTotals& totals() { return totals_; }
  // With fp16.
  std::optional<optim::LossScaler>& scaler() { return scaler_; }
  // With health.nan or health.spike = "skip".
  std::optional<optim::RefusedSteps>& refused() { return refused_; }
  // Scales of FP8 follow what was loaded into states().
  void refresh_scales() { fp8_scales_.refresh(); }
  // What rounding took in the last step, if it was one that tells.
  const RoundingReports& reports() const { return *reports_; }
  // Of the last step, the same on every rank.
  const ExpertLoads& expert_loads() const { return expert_loads_; }

  // Tensors of the model without gradients that this rank holds.
  std::vector<StateTensor*> states() { return model_.states(); }
  model::Stage& stage(int chunk = 0) {
    return *model_.chunks()[static_cast<std::size_t>(chunk)].stage;
  }
  const schedule::Schedule& schedule() const { return executor_->schedule(); }
  Shape activation_shape() const { return model_.activation_shape(); }
  // Positions, in the whole sequence, of the tokens that this rank holds of each.
  const std::vector<std::int64_t>& positions() const {
    return model_.sequence_positions();
  }

  // The first entry of the vocabulary in the logits of evaluate() on this rank.
  std::int64_t vocabulary_begin() const;

  const Executor& executor() const { return *executor_; }
  std::size_t activation_bytes() const { return executor_->bytes().activations; }
  // Of activations on the host; what moved since the start.
  std::size_t offloaded_activation_bytes() const { return executor_->bytes().offloaded; }
  ActivationTraffic activation_traffic() const { return executor_->activation_traffic(); }
  std::size_t communication_bytes() const {
    const Executor::Bytes bytes = executor_->bytes();
    return bytes.received_gradients + bytes.pinned + (decision_ ? decision_->bytes() : 0);
  }
  // Of scratch, tables, token ids on a GPU.
  std::size_t workspace_bytes() const;
  // What the kernels of a GPU hold for themselves; 0 elsewhere.
  std::int64_t kernel_bytes() const;

  // From now on every kernel is launched by itself, for profiles that look at each.
  void drop_graphs() { executor_->drop_graphs(); }

 private:
  // What is known of a step when its gradients are on their way.
  struct StepInProgress {
    const Batch& batch;
    StepObserver& observer;
    bool runs_twice = false;
    double items = 1, scale = 1;  // of the loss: divided by, and times
    WorkClock clock;              // since forward began
    // Whether ranks that hold the same weights should take the same time.
    bool work_is_alike = true;
    StepResult result;
  };

  void build_store();
  void measure();
  void compute(const StepInProgress& step);
  void finish_gradients();
  void run_again(const StepInProgress& step, const StepTotals::Outcome& mine);
  void finish_by_host(StepInProgress& step);
  void finish_by_device(StepInProgress& step, const kernels::StepLimits& limits);
  nn::PreferenceSums mean_of_pairs(double pairs);
  void update(const StepResult& result, double loss_scale, std::int64_t number);
  std::int64_t updates_until(std::int64_t step) const;

  config::RunConfig config_;
  Device device_;
  comm::Mesh& mesh_;
  RankModel model_;
  std::optional<optim::ParameterStore> store_;
  std::optional<FrozenBase> base_;
  std::optional<OwnGradients> own_gradients_;  // of steps on CPUs
  std::optional<Executor> executor_;
  StepTotals totals_;
  std::optional<optim::LossScaler> scaler_;
  std::optional<optim::RefusedSteps> refused_;
  ExpertLoads expert_loads_;
  Fp8Scales fp8_scales_;
  std::optional<RoundingReports> reports_;
  std::optional<DeviceDecision> decision_;  // where the deck lets the GPU judge
  DeviceClock parts_;                       // of a step that it judges
  bool drifts_ = false;  // copies took steps by themselves since they were alike
};

}  // namespace trireme::engine
