// Engine: the model, its parameters and its memory as one rank of a mesh holds them.
// SPDX-License-Identifier: Apache-2.0
// It executes pipeline schedules. The trainer builds one on its device, the planner the
// same one on the meta device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "config/run_config.hpp"
#include "engine/action_graphs.hpp"
#include "engine/device_clock.hpp"
#include "engine/step.hpp"
#include "engine/step_totals.hpp"
#include "model/stage.hpp"
#include "nn/fp8_report.hpp"
#include "optim/loss_scaler.hpp"
#include "optim/parameter_store.hpp"
#include "parallel/amax_region.hpp"
#include "parallel/attention_core.hpp"
#include "schedule/schedule.hpp"

namespace trireme::engine {

// Most bytes that one microbatch and one action take: read off a run of the real model
// and schedule on the meta device.
struct ActivationDemand {
  std::vector<std::size_t> saved;  // of a microbatch, for each chunk of this rank
  std::size_t scratch = 0, recomputed = 0;  // of an action
  std::int64_t kernels = 0;                 // of one kernel, on a GPU
};

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
  // The sum of the losses of this rank's tokens of one microbatch, without gradients; 0
  // but on the last stage. `each`: see nn::Head::evaluate.
  double evaluate(const TensorView& inputs_T, const TensorView& targets_T,
                  const nn::Head::EachChunk& each = {});

  optim::ParameterStore& store() { return *store_; }
  StepTotals& totals() { return totals_; }
  // With fp16.
  std::optional<optim::LossScaler>& scaler() { return scaler_; }
  // Scales of FP8 follow what was loaded into states().
  void refresh_scales();
  // What FP8 lost in the last step, over all ranks: of x, W and dy of the linear layers.
  // Empty but in every precision.report_every-th step.
  std::span<const RoundingLosses> fp8_losses() const { return fp8_losses_; }
  // What rounding took from stored numbers in the same steps, over all ranks, by
  // TensorClass.
  std::span<const RoundingLosses> stored_losses() const { return stored_losses_; }
  // Tensors of the model without gradients that this rank holds.
  std::vector<StateTensor*> states();
  // Of the last step, the same on every rank: tokens that chose each expert [layers, E],
  // rows of zeros for layers without experts, and the routers' losses.
  std::span<const double> expert_load() const;
  nn::RouterLosses router_losses() const;
  int chunks() const { return static_cast<int>(chunks_.size()); }
  model::Stage& stage(int chunk = 0) { return *chunks_[to_size(chunk)].stage; }
  const schedule::Schedule& schedule() const { return schedule_; }
  Shape activation_shape() const;  // of what goes from stage to stage
  // Positions, in the whole sequence, of the tokens that this rank holds of each.
  const std::vector<std::int64_t>& positions() const { return sequence_positions_; }

  const ActivationDemand& demand() const { return demand_; }
  std::size_t activation_bytes() const;     // of the saved arenas
  std::size_t communication_bytes() const;  // of buffers for received gradients
  std::size_t workspace_bytes() const;      // of scratch, tables, token ids on a GPU
  // What the kernels of a GPU hold for themselves; 0 elsewhere.
  std::int64_t kernel_bytes() const;

  // Of the last run(): seconds in all, and without waiting for other stages.
  double run_seconds() const { return run_seconds_; }
  double busy_seconds() const { return run_seconds_ - idle_seconds_; }
  // Of the last run(): seconds of each action of the schedule, without waiting for other
  // stages.
  const std::vector<double>& action_seconds() const { return action_seconds_; }

  // Recorded actions and their launches, with run.cuda_graphs.
  const std::optional<ActionGraphs>& graphs() const { return graphs_; }
  // From now on every kernel is launched by itself, for profiles that look at each.
  void drop_graphs() { graphs_.reset(); }

 private:
  static std::size_t to_size(std::int64_t i) { return static_cast<std::size_t>(i); }
  // What one microbatch of a chunk holds between forward and backward.
  struct Live {
    Arena saved;
    model::Stage::Saved views;
    nn::DeferredGradients deferred;
    TensorView input, output;
    comm::Handle received, sent_output, sent_gradient;
  };
  struct GradientIn {
    Buffer memory;
    comm::Handle received;
  };
  // A stage of this rank, with the memory of its microbatches.
  struct Chunk {
    std::unique_ptr<model::Stage> stage;
    int number = 0;            // among all stages
    bool before_here = false;  // the stage before it is on this rank too
    bool after_here = false;   // so is the stage after it
    std::vector<Live> live;
    std::vector<std::int64_t> slots;  // of each microbatch, in live
    std::vector<GradientIn> gradients_in;
    std::vector<std::int64_t> gradient_slots;  // of each microbatch, in gradients_in
  };
  struct Work {
    const std::vector<TensorView>& inputs;
    const std::vector<TensorView>& targets;
    double scale = 0;
    bool training = true;
    const nn::Head::EachChunk* each = nullptr;
    double loss_scale = 1.0;
  };

  void build_chunks(Device device);
  void build_store(comm::Mesh& mesh, Device device);
  void build_attention(comm::Mesh& mesh);
  void fill_positions();
  void allocate(Device device);
  void prepare_graphs();
  // Whether it computes on a GPU, or plans for one.
  bool for_gpu() const { return device_.is_cuda() || plans_for_gpu(); }
  bool plans_for_gpu() const { return device_.is_meta() && mesh_.device().is_cuda(); }
  static ActivationDemand measure(Engine& engine);
  void begin_step(std::int64_t step);
  double run(const Batch& batch, double scale, double loss_scale);
  void finish_gradients();
  bool overflows(const StepResult& result);
  std::int64_t update_number(std::int64_t step) const;
  void update(const StepResult& result, double loss_scale, std::int64_t number);
  void sum_expert_loads();
  void finish_scales();
  void finish_report();
  void finish_stored_report();

  double execute(const schedule::Schedule& schedule, const Work& work);
  void perform(const schedule::Action& action, const Work& work, Stream& stream);
  void dispatch(const schedule::Action& action, const Work& work, Stream& stream);
  TensorView on_device(Stream& stream, const TensorView& ids_T, std::int64_t slot,
                       bool targets);
  kernels::LossScale scale_of_loss(const Work& work) const;
  void compute(const schedule::Action& action, Stream& stream,
               const ActionGraphs::Work& work);
  void forward(const schedule::Action& action, const Work& work, Stream& stream);
  void backward(const schedule::Action& action, Stream& stream);
  void send(const schedule::Action& action, Stream& stream);
  void receive(const schedule::Action& action, Stream& stream);
  Live& claim(Stream& stream, Chunk& chunk, std::int64_t microbatch);
  Live& live(Chunk& chunk, std::int64_t microbatch);
  void wait_for_peer(Stream& stream, comm::Handle& handle);
  void sum_times(std::size_t start, std::size_t end);
  nn::Pass pass(Stream& stream, Live& live, nn::WeightGradients& gradients);

  config::RunConfig config_;
  Device device_;
  comm::Mesh& mesh_;
  comm::Group& pipeline_;
  parallel::TensorRegion region_;
  parallel::AmaxRegion amax_region_;
  schedule::PipelineShape shape_;
  schedule::Schedule schedule_, forward_schedule_;
  std::vector<Chunk> chunks_;
  std::unique_ptr<parallel::AttentionCore> attention_;
  std::vector<std::int64_t> sequence_positions_;
  Buffer positions_;
  std::optional<optim::ParameterStore> store_;
  StepTotals totals_;
  std::optional<optim::LossScaler> scaler_;
  Buffer ids_;    // on a GPU: tokens and targets of each slot of activations [2 slots, T]
  Buffer scale_;  // f64 [1], with graphs: of the loss in the run in progress
  Buffer loss_;   // f64 [1]
  Buffer loads_;  // f64 [layers * E + 2]: loads of all layers and the routers' losses
  std::vector<double> loads_on_host_;
  Buffer amaxes_;            // on the host: f32, those of the widest chunk
  double loss_scale_ = 1.0;  // of the run in progress
  bool training_ = true;
  std::optional<nn::Fp8Report> fp8_report_;  // with FP8
  bool reporting_ = false;                   // in this step
  std::vector<RoundingLosses> fp8_losses_;
  std::vector<RoundingLosses> stored_losses_;
  ActivationDemand demand_;
  std::optional<Arena> scratch_, recomputed_;
  // An action, or a wait inside the next one, between two marks of the clock.
  struct Span {
    bool is_wait = false;
    std::size_t begin = 0, end = 0;
  };
  DeviceClock clock_;
  std::vector<Span> spans_;  // of the last run
  std::vector<double> action_seconds_;
  std::optional<ActionGraphs> graphs_;
  std::int64_t last_backward_ = 0;  // microbatch whose gradients complete the sums
  double run_seconds_ = 0, idle_seconds_ = 0;
};

}  // namespace trireme::engine
