// ParameterStore: all weights of a rank, their gradients and the optimizer's state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/weight_access.hpp"
#include "comm/mesh.hpp"
#include "comm/recording.hpp"
#include "optim/gathered_weights.hpp"
#include "optim/gradient_sums.hpp"
#include "optim/number_codec.hpp"
#include "optim/optimizer_config.hpp"
#include "optim/optimizer_state.hpp"
#include "optim/outer_step.hpp"
#include "optim/state_memory.hpp"
#include "optim/state_scales.hpp"
#include "optim/store_context.hpp"

namespace trireme::optim {

// The one mechanism behind DDP, ZeRO and FSDP: what of a flat parameter is sharded is a
// setting. docs/decisions/flat-parameters.md. Modules see the WeightAccess alone.
class ParameterStore final : public WeightAccess {
 public:
  // Allocates everything on `device` and binds the Params, as far as they are whole at
  // rest. `modules` in the order of forward, the same list on every replica. The shard
  // groups are the mesh's; Sharding::none needs mesh.folding().shard = 1.
  ParameterStore(const std::vector<ParamModule>& modules, const StoreConfig& config,
                 comm::Mesh& mesh, Device device);

  // Every weight as a pure function of (seed, tensor name, global index). No rank holds
  // more than its shards.
  void initialize(std::uint64_t seed);
  // Brings the weights in use up to date with the master weights, after they were loaded.
  void refresh_weights();

  // What modules say: see WeightAccess.
  void fetch(int module, Direction direction) override;
  void release(int module) override;
  void open_gradients(int module) override;
  void close_gradients(int module) override;
  void ready(Param& param) override { gradients_->ready(param); }
  // Lets communication in flight move on; a recording allows no look at it.
  void progress() {
    if (comm::recorded_calls() == nullptr) context_.mesh.everyone().progress();
  }
  // Between two actions of a schedule: no weights are gathered, and no gradients of a
  // module are in flight. What the next action then does, and in which buffers, depends
  // on nothing that was before it.
  void rest() {
    weights_.drop();
    if (gradients_) gradients_->finish_closed();
  }

  // What a graph that holds sums over replicas waits for, and is told when it was
  // launched.
  GradientSums& sums() { return *gradients_; }

  // One step's gradients: begin_step, then the contributions of every microbatch, then
  // finish_gradients. See GradientSums.
  void begin_step(std::int64_t microbatches) { gradients_->begin(microbatches); }
  void finish_gradients() { gradients_->finish(); }
  double gradient_squares(const TensorView& sum = {}) { return gradients_->squares(sum); }
  // One optimizer step. Where factors.decision says that it is not sound, weights and
  // state stay as they are.
  void update(const OptimizerConfig& config, const StepFactors& factors) {
    state_.update(*gradients_, config, factors);
  }
  // With OuterConfig: makes the copies of the model, which took steps by themselves, one
  // again. See OuterStep.
  void average_copies();
  // Makes a number of this rank's sums NaN: a fault for tests.
  void inject_nan_gradient() { gradients_->inject_nan(); }

  // Counts what rounding takes, from begin(): of gradients as they are kept and sent,
  // and in update() of moments and weights. Off without StoreConfig::reports, and where
  // nothing is of low precision but weights that are plain numbers.
  StoredReport& report() { return codec_.report(); }

  // Boxes of this rank's shards of all tensors: weights (master where there are some),
  // moments, and the momentum of OuterStep.
  std::vector<StateBox> state_boxes();
  // The sums over the whole mesh (with OuterConfig over this copy's ranks), decoded where
  // they are kept in another type.
  std::vector<StateBox> gradient_boxes() { return gradients_->boxes(); }
  // What error feedback carries over, which belongs to this rank alone and means nothing
  // on another mesh: whole tensors under names of this layout and rank. None without it.
  std::vector<StateBox> feedback_boxes() const;
  void clear_feedback();

  std::int64_t local_elements() const;  // parameters on this rank, without padding
  std::size_t weight_bytes() const { return weights_.bytes(); }
  std::size_t gradient_bytes() const { return gradients_ ? gradients_->bytes() : 0; }
  std::size_t optimizer_bytes() const { return state_.bytes() + outer_.bytes(); }
  // Of these, what is on the device wherever the rest lies.
  std::size_t resident_optimizer_bytes() const {
    return state_.resident_bytes() + outer_.bytes();
  }
  // Weights, gradients and the optimizer's state, without what is gathered or opened for
  // a module: the recipe's bytes per parameter times the elements of all flat parameters
  // (Sharding::none, nothing frozen).
  std::size_t state_bytes() const;
  // Memory that low-precision numbers pass through, and scales.
  std::size_t workspace_bytes() const;
  std::size_t communication_bytes() const;
  std::size_t staged_bytes() const {
    return state_.staging_bytes() + weights_.staging_bytes();
  }
  // Of these, what a step needs for some time only.
  struct PassingBytes {
    std::size_t weights = 0, gradients = 0;  // gathered and opened for modules that run
    std::size_t update = 0;                  // of the workspace: the update's
    std::size_t reads = 0;  // of what is staged: weights that come from a disk
  };
  PassingBytes passing_bytes() const;
  // Where the state lies, and how much of it and of weights is on a disk.
  const StateMemory& memory() const { return memory_; }

  const StoreConfig& config() const { return context_.config; }
  const std::vector<FlatParameter>& flats() const { return context_.layout.flats; }
  // With the values of those that are whole at rest.
  const std::vector<Param*>& params() {
    weights_.wait();
    return params_;
  }
  // After an update the shards of weights come together while the next step begins:
  // fetch() waits for those of its module, as does all that gives weights away here. This
  // waits for all, and the other, for tests, says how many flat parameters are still to
  // come.
  void wait_for_weights() { weights_.wait(); }
  int weights_under_way() const { return weights_.under_way(); }
  const OffloadTraffic& offload_traffic() const { return context_.traffic; }
  // Most buckets that were gathered at once so far.
  int peak_gathered() const { return weights_.peak_gathered(); }

 private:
  StoreContext context_;
  NumberCodec codec_;
  StateScales scales_;
  StateMemory memory_;
  GatheredWeights weights_;
  std::optional<GradientSums> gradients_;  // in training
  OptimizerState state_;
  OuterStep outer_;
  std::vector<Param*> params_;
};

}  // namespace trireme::optim
