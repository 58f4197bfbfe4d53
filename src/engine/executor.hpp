// Executor: runs a rank's pipeline schedules over the chunks of its model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/action_graphs.hpp"
#include "engine/action_times.hpp"
#include "engine/activation_offload.hpp"
#include "engine/rank_model.hpp"
#include "engine/step.hpp"
#include "engine/token_buffers.hpp"
#include "nn/fp8_report.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::engine {

// Most bytes that one microbatch and one action take: read off a run of the real model
// and schedule on the meta device.
struct ActivationDemand {
  std::vector<std::size_t> saved;  // of a microbatch, for each chunk of this rank
  OffloadDemand offloaded;         // of blocks whose activations are not among these
  std::size_t scratch = 0, recomputed = 0;  // of an action
  std::int64_t kernels = 0;                 // of one kernel, on a GPU
  // Of these and of what is saved, what an evaluation takes.
  struct Evaluation {
    std::size_t activations = 0, scratch = 0;
  };
  Evaluation evaluation{};
};

// Any schedule is a list of actions; this knows what each means: which memory a
// microbatch lives in, where its input comes from, whom a message goes to.
class Executor {
 public:
  // Allocates the memory of the microbatches that are alive at once, as `demand` says
  // (nothing on meta). Everything that is given outlives this.
  Executor(const config::RunConfig& config, comm::Mesh& mesh, RankModel& model,
           optim::ParameterStore& store, Device device, ActivationDemand demand);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Forward and backward of all microbatches. Gradients of loss sum * scale * loss_scale
  // are added in the store; `report`, if given, counts what FP8 loses. Queues the work of
  // a GPU, for which it need not have waited.
  void train(const Batch& batch, double scale, double loss_scale, nn::Fp8Report* report);
  // Where the sum of the losses of this rank's tokens in the last run is, f64 [1], which
  // is 0 but on the last stage.
  const TensorView& loss() const { return loss_.view(); }
  // The device has come to the end of the last run: its times are added up.
  void finish_times() { times_.sum(); }
  // The same sum of one microbatch, without gradients. `each`: see nn::Head::evaluate;
  // `answers`: their log-probabilities are written where this rank has the head.
  double evaluate(const std::vector<TensorView>& inputs_T,
                  const std::vector<TensorView>& targets_T,
                  const nn::Documents& documents, const nn::Head::EachChunk* each,
                  const nn::Answers* answers = nullptr,
                  std::vector<double>* log_probabilities = nullptr);

  const schedule::Schedule& schedule() const { return schedule_; }
  // Of the last run of training: sums over the pairs that this rank has, each by its
  // share; zero but on the last stage.
  const nn::PreferenceSums& pairs() const { return pairs_.sums; }
  // Of the last run, once finish_times() was called.
  const ActionTimes& times() const { return times_; }
  const ActivationDemand& demand() const { return demand_; }
  // On meta: the demand is what the runs so far have reached, and `kernels`; of these
  // `evaluation` is what they had reached before a step.
  void note_demand(std::int64_t kernels, const ActivationDemand::Evaluation& evaluation);
  // What one microbatch has reached so far, in the chunks and in an action.
  ActivationDemand::Evaluation reached() const;

  struct Bytes {
    std::size_t activations = 0;         // of the saved arenas
    std::size_t offloaded = 0;           // of activations on the host
    std::size_t received_gradients = 0;  // of the buffers that they come to
    std::size_t pinned = 0;              // of token ids, where a GPU fetches them
    std::size_t workspace = 0;           // of scratch, and token ids on a GPU
  };
  Bytes bytes() const;

  // Since the start, with parallel.offload_activations.
  ActivationTraffic activation_traffic() const {
    return offload_ ? offload_->traffic() : ActivationTraffic{};
  }

  // Recorded actions and their launches, with run.cuda_graphs.
  const std::optional<ActionGraphs>& graphs() const { return graphs_; }
  // From now on every kernel is launched by itself.
  void drop_graphs() { graphs_.reset(); }

 private:
  // What a forward that the host has gone through leaves for the backward.
  struct Forward {
    model::Stage::Saved views;
    TensorView output;
    std::size_t saved_bytes = 0;  // of the arena, when it ended
  };
  // What one microbatch of a chunk holds between forward and backward.
  struct Live {
    Arena saved;
    std::unique_ptr<OffloadedBlocks> blocks;  // those of which activations are offloaded
    // One that is launched as a graph leaves what it left when it was recorded, which
    // depends on where its input lies. Evaluations, and forwards of which no graphs are
    // made, share the one of no place.
    std::map<const void*, Forward> forwards{};
    Forward* forward = nullptr;  // of the microbatch
    nn::DeferredGradients deferred{};
    bool defers = false;             // the host has put off its weight gradients
    TensorView input{}, gradient{};  // the last: of the output
    nn::Documents documents{};
    comm::Handle received{}, sent_output{}, sent_gradient{};

    // `place`: of the input of a forward of which graphs are made, else null.
    void begin_forward(const model::Stage& stage, const void* place);
    // What a backward takes from the arena is to lie above what the forward took.
    void keep_forward();
  };
  struct GradientIn {
    Buffer memory;
    comm::Handle received;
  };
  // The memory of a chunk's microbatches.
  struct ChunkMemory {
    std::vector<Live> live;
    std::vector<std::int64_t> slots;  // of each microbatch, in live
    std::vector<GradientIn> gradients_in;
    std::vector<std::int64_t> gradient_slots;  // of each microbatch, in gradients_in
  };
  // What a run works on.
  struct Work {
    const std::vector<TensorView>& inputs;
    const std::vector<TensorView>& targets;
    std::int64_t step = 0;  // in training
    bool training = true;
    double scale = 0, loss_scale = 1.0;         // in training
    std::int64_t sequences = 1;                 // of the step, over all ranks
    std::int64_t counted = 1;                   // microbatches that are no stand-in
    nn::Fp8Report* report = nullptr;            // in training, if it is wanted
    const nn::Head::EachChunk* each = nullptr;  // in an evaluation
    const std::vector<nn::Documents>* documents = nullptr;  // if there are any
    const nn::Answers* answers = nullptr;  // of each microbatch, if there are any
    std::vector<double>* log_probabilities = nullptr;  // of them, in an evaluation
  };

  // Of pairs of answers, in the last run of training.
  struct Pairs {
    parallel::SequenceSum sequence_sum;
    nn::PreferenceSums sums{};
  };
  // What is not warm yet launches each kernel, and its messages leave the GPU to it.
  struct Warmth {
    int runs = 0;  // of training, in which kernels and graphs are not all there yet
    bool has_evaluated = false;
    bool sends_block = false;  // in the first run of a schedule, on GPUs
  };

  // What graphs ask of a run.
  struct Recording {
    comm::Group* everyone = nullptr;  // where ranks have to record alike
    bool by_steps = false;            // the actions of a step are alike: recorded, or not
    std::int64_t scale_changes = 0;   // nn::Fp8State::changes() of all, as recorded
    bool rests = false;               // the store, between actions
    bool rests_activations = false;   // the same of those that are offloaded
    bool sums = false;                // over replicas are part of graphs
    // f64 [2], which recorded kernels read: the scale of the loss in the run in progress,
    // and the first sequence of the microbatch.
    Buffer numbers;
    // Of a forward and a backward of each chunk.
    std::map<std::pair<schedule::ActionKind, int>, ActivationTraffic> traffic;

    TensorView scale() const { return numbers.view().rows(0, 1); }
    TensorView sequence() const { return numbers.view().rows(1, 1); }
  };
  // The sums over replicas of a step.
  struct Sums {
    bool begin_early = false;        // as gradients are complete
    std::vector<std::int64_t> last;  // microbatch that completes those of each chunk
  };

  static std::size_t to_size(std::int64_t i) { return static_cast<std::size_t>(i); }
  // The schedule is one of as many microbatches from now on, in the same memory.
  void follow(std::int64_t microbatches);
  void allocate_chunk(int c, Device device, std::int64_t slots, std::int64_t gradients);
  std::unique_ptr<OffloadedBlocks> offloaded_blocks(int c);
  void prepare_graphs(comm::Mesh& mesh);

  void execute(const schedule::Schedule& schedule, const Work& work);
  void run(const schedule::Schedule& schedule, const Work& work);
  void perform(const schedule::Action& action, const Work& work, Stream& stream);
  void forward(const schedule::Action& action, const Work& work, Stream& stream);
  void backward(const schedule::Action& action, const Work& work, Stream& stream);
  void send(const schedule::Action& action, Stream& stream);
  void receive(const schedule::Action& action, Stream& stream);
  void weights(const schedule::Action& action, const Work& work, Stream& stream);
  void compute(const schedule::Action& action, const Work& work, Stream& stream,
               const ActionGraphs::Work& kernels);
  void rest(const Work& work, Stream& stream);
  nn::Pass pass(const Work& work, Stream& stream, std::int64_t microbatch, Live& live,
                nn::WeightGradients& gradients);

  nn::Documents fetch_documents(Stream& stream, const nn::Documents& on_host,
                                std::size_t chunk, std::int64_t slot);
  Live& live(std::size_t chunk, std::int64_t microbatch);
  Live& claim(Stream& stream, std::size_t chunk, std::int64_t microbatch);
  GradientIn& gradient_in(const schedule::Action& action);
  void wait_for_peer(Stream& stream, comm::Handle& handle);
  kernels::LossScale scale_of_loss(const Work& work) const;
  nn::Preferences preferences(const Work& work, std::int64_t microbatch);

  const config::RunConfig& config_;
  Device device_;
  comm::Group& pipeline_;
  Pairs pairs_;
  Recording recording_;
  RankModel& model_;
  optim::ParameterStore& store_;
  schedule::Schedule schedule_, forward_schedule_;
  ActivationDemand demand_;
  std::optional<ActivationOffload> offload_;
  std::vector<ChunkMemory> memory_;  // of each chunk of the model
  std::optional<Arena> scratch_, recomputed_;
  TokenBuffers tokens_;     // on a GPU, of each slot of activations
  TokenBuffers documents_;  // the same of documents, two for each slot of each chunk
  std::int64_t document_slots_ = 0;  // of each chunk
  Buffer loss_;                      // f64 [1]
  ActionTimes times_;
  std::optional<ActionGraphs> graphs_;
  Warmth warmth_;
  std::vector<bool> begun_;  // chunks of which a microbatch has run in this run
  Sums sums_;
};

}  // namespace trireme::engine
