// Engine: the model, its parameters and its memory as one rank of a mesh holds them. The
// trainer builds one on the host, the planner the same one on the meta device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/stage.hpp"
#include "optim/parameter_store.hpp"
#include "parallel/attention_core.hpp"
#include "train/run_config.hpp"
#include "train/schedule.hpp"

namespace trireme::train {

// Most bytes that the activations of one microbatch and the working space of one action
// take: read off a run of the real model on the meta device.
struct ActivationDemand {
  std::size_t saved = 0, scratch = 0;
};

class Engine {
 public:
  // Weights are zero until store().initialize() or a checkpoint is loaded. Allocates all
  // memory a step needs (nothing on meta). The mesh outlives the engine.
  Engine(const RunConfig& config, comm::Mesh& mesh, Device device);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Runs the schedule on microbatches of tokens (inputs[m], targets[m]: [T] i32).
  // Gradients of loss sum * scale are added in the store, whose buckets are reduced as
  // they fill. Returns the sum of the losses of this rank's tokens; 0 on meta.
  double run(const Schedule& schedule, const std::vector<TensorView>& inputs,
             const std::vector<TensorView>& targets, double scale);
  // Sum of the losses without gradients.
  double evaluate(const TensorView& inputs_T, const TensorView& targets_T,
                  const nn::Head::EachChunk& each = {});

  model::Stage& stage() { return stage_; }
  optim::ParameterStore& store() { return *store_; }
  const ActivationDemand& demand() const { return demand_; }
  std::size_t activation_bytes() const;  // of the saved arenas
  std::size_t workspace_bytes() const;   // of the scratch arena and the tables

 private:
  // What one microbatch holds between forward and backward.
  struct Live {
    Arena saved;
    model::Stage::Saved views;
  };
  static ActivationDemand measure(Engine& engine);
  nn::Pass pass(Stream& stream, Arena& saved, Arena& scratch,
                nn::WeightGradients& gradients);
  double forward_and_loss(Stream& stream, Live& live, Arena& scratch,
                          nn::WeightGradients& gradients, const TensorView& inputs_T,
                          const TensorView& targets_T, double scale);
  void backward(Stream& stream, Live& live, Arena& scratch,
                nn::WeightGradients& gradients);

  RunConfig config_;
  Device device_;
  parallel::TensorRegion region_;
  model::Stage stage_;
  parallel::LocalAttention attention_;
  Buffer positions_;
  std::optional<optim::ParameterStore> store_;
  ActivationDemand demand_;
  std::vector<Live> live_;
  std::optional<Arena> scratch_;
};

}  // namespace trireme::train
