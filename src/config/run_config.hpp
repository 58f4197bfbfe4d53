// RunConfig: what a deck means, one plain struct for each module, after every check.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/recipe.hpp"
#include "base/split.hpp"
#include "comm/mesh.hpp"
#include "comm/transport.hpp"
#include "config/batch_ramp.hpp"
#include "config/start_model.hpp"
#include "config/step_range.hpp"
#include "io/code_source.hpp"
#include "io/deck.hpp"
#include "io/sample_source.hpp"
#include "model/base_codes.hpp"
#include "model/model_config.hpp"
#include "nn/adapter_config.hpp"
#include "nn/pass.hpp"
#include "nn/preferences.hpp"
#include "optim/loss_scaler.hpp"
#include "optim/optimizer_config.hpp"
#include "optim/parameter_store.hpp"
#include "parallel/context_order.hpp"
#include "schedule/schedule.hpp"

namespace trireme::config {

// run.device: where to compute. automatic: on GPUs where every rank has one.
enum class DeviceChoice : std::uint8_t { automatic, cpu, cuda };

// kernels::AttentionLibrary, by the deck's words.
enum class AttentionChoice { automatic, cudnn, own };

struct RunSettings {
  std::string name, directory;
  std::int64_t steps = 0;
  std::uint64_t seed = 0;
  DeviceChoice device = DeviceChoice::automatic;
  bool share_gpus = false;
  bool cuda_graphs = false;
  bool gemm_search = false;
  std::int64_t logits_bytes = 0;  // of a chunk; 0: by device
  // Memory of the smallest GPU of any rank, by its driver or a machine file; 0: not
  // known. No key says it.
  std::int64_t gpu_bytes = 0;
  AttentionChoice attention = AttentionChoice::automatic;
  bool attention_deterministic = true;
  comm::Backend backend = comm::Backend::automatic;
  bool nccl_sharing = false;  // of buffers, between communicators
  int threads = 0;            // of each rank; 0: automatic
  double time_limit = 0;      // seconds; 0: none
};

struct BatchSettings {
  std::int64_t global = 0;  // sequences per step
  std::int64_t micro = 0;   // sequences per forward
  // What comes before these sequences of model.sequence tokens; mostly nothing.
  std::vector<RampPart> ramp{}, sequence_ramp{};
  // Steps whose sequences are not trained on.
  std::vector<StepRange> passed_over{};
};

enum class ScheduleUnit : std::uint8_t { steps, tokens };

struct ParallelSettings {
  comm::MeshShape mesh;  // data = what remains of the world
  comm::Folding folding;
  double expert_memory = 0;  // rows of experts, as a multiple of the even load; 0: all
  bool sequence = false;
  // Parts of a product whose result is summed over tensor ranks; 0: by transport.
  int tensor_chunks = 0;
  bool ulysses = false;  // else ring attention
  parallel::ContextOrder order = parallel::ContextOrder::contiguous;
  schedule::ScheduleKind schedule = schedule::ScheduleKind::one_f_one_b;
  int virtual_stages = 1;                  // chunks of a pipeline rank
  std::vector<std::int64_t> stage_layers;  // of each stage; empty: cut by work
  optim::Sharding sharding = optim::Sharding::none;
  std::int64_t wrap_parameters = 0;     // 0: a unit for each module
  std::vector<std::string> wrap_names;  // modules that begin a unit; empty: by size
  int prefetch = 1;
  int gathered_units = 0;
  optim::Offload offload = optim::Offload::none;
  double offload_fraction = 1;    // of the optimizer's state
  std::string offload_directory;  // with Offload::disk
  bool offload_activations = false;
  double offload_activations_fraction = 1;  // of each stage's blocks
  std::int64_t bucket_bytes = 0;            // 0: by transport
  // Of each group, for collectives of the host; 0: any number.
  std::int64_t staging_bytes = std::int64_t{64} << 20;
  bool reproducible = false;  // sums of gradients do not depend on the data ranks
};

struct RecomputeSettings {
  nn::Recompute what;
  std::int64_t layers = 0;  // the first ones; 0: all
};

// The type of logits in training: by device, that of accumulators, that of activations.
enum class LogitsType : std::uint8_t { by_device, accumulate, compute };

struct PrecisionSettings {
  Recipe recipe;                       // with the deck's changes to single classes
  DType compute = DType::f32;          // the recipe's activations
  DType accumulate = DType::f32;       // gradients, master weights, moments
  DType gradient_reduce = DType::f32;  // on the wire
  bool error_feedback = false;         // of what rounding to that type takes
  std::int64_t first_bf16 = 0, last_bf16 = 0;  // blocks without FP8
  std::int64_t amax_history = 1024;            // steps
  int margin = 0;                              // bits
  bool keep_weight_codes = false;              // of FP8, for a step
  bool tf32 = false;                           // products of f32 on a GPU
  std::int64_t report_every = 100;             // steps; 0: never
  optim::LossScaling loss_scale;               // with fp16
  LogitsType logits = LogitsType::by_device;
};

struct CheckpointSettings {
  std::int64_t every = 0;       // steps; 0: at the end only
  bool at_end = true;           // when run.steps are done
  int keep = 0;                 // 0: all
  std::int64_t keep_every = 0;  // steps; 0: none
  int ranks_per_file = 1;       // ranks that write one file
  bool async = false;           // written while training goes on
  std::string resume;           // "auto", "never", or a path
  bool one_reads = false;       // one rank reads and hands out
  bool load_on_mesh_change = true;
  int keep_best = 0;              // by validation loss; 0: none
  std::int64_t partner = 0;       // steps between copies in nodes' memory; 0: none
  std::string partner_directory;  // where a node keeps them
};

struct MetricsSettings {
  std::int64_t every = 1;
  bool tensorboard = false;
  std::vector<std::string> trackers{};  // words of io::tracker_names
  std::string tracker_directory;        // "": the run's
  double heartbeat = 0;                 // seconds; 0: none
  std::int64_t validate_every = 0;
  std::int64_t validate_sequences = 0;  // 0: the whole validation source
  std::int64_t sample_every = 0;        // steps; 0: no text is written
  std::vector<std::string> sample_prompts{};
  std::int64_t sample_tokens = 0;  // most of one text
  double sample_temperature = 0;   // 0: greedy
  std::string profile;             // see parse_profile(); "": none
};

// What a deck's [health] section says about steps.
struct StepRules {
  enum class Reaction : std::uint8_t { off, skip, stop };
  Reaction nan = Reaction::stop;  // loss or norm that is not usable; never off
  Reaction spike = Reaction::off;
  bool skips() const { return nan == Reaction::skip || spike == Reaction::skip; }
  double spike_threshold = 6;       // standard deviations above the mean
  std::int64_t spike_window = 128;  // sound steps that mean and deviation are taken over
  // More than skip_limit skipped steps among the last skip_window end the run.
  std::int64_t skip_limit = 10, skip_window = 100;
  double clip = 0;  // of the gradient's norm; 0: none
};

struct HealthSettings {
  StepRules steps;
  double timeout_seconds = 0;             // comm.timeout_seconds
  double watchdog_seconds = 0;            // without progress
  double slow_factor = 1;                 // times as long in slow phases
  std::int64_t check_replicas_every = 0;  // steps; 0: never
  bool rerun = true;                      // of steps that are not sound
  std::int64_t rerun_every = 0;           // of sound ones; 0: none
};

struct DebugSettings {
  std::vector<std::int64_t> dump_gradients;  // steps
  std::vector<std::int64_t> dump_samples;    // steps
  std::string fault;                         // "" or "kind@step@rank"
  bool check_collectives = false;
};

// What a run learns from: the next token, or which of two answers is preferred (DPO).
enum class Objective : std::uint8_t { next_token, dpo };

struct TrainSettings {
  Objective objective = Objective::next_token;
  nn::PreferenceLoss pairs;  // of dpo
};

// Low-rank matrices that are trained in place of the model.
struct AdapterSettings {
  nn::AdapterConfig matrices;
  std::string from;                       // a folder to start from; "": new ones
  std::string named_by = "adapter.from";  // for messages: "deck.toml:7:9: adapter.from"
  model::BaseCodes quantize = model::BaseCodes::none;  // of the frozen linear layers
  // Where their codes are read, by whoever loaded the deck. Null: they are only planned.
  std::shared_ptr<const io::CodeSource> codes{};
};

struct RunConfig {
  RunSettings run;
  TrainSettings train;
  model::ModelConfig model;
  std::string start_from;  // whose weights to start from; "": none
  AdapterSettings adapter;
  // Validation happens if metrics.validate_every > 0; validation.paths is empty for
  // synthetic.
  io::SourceConfig data, validation;
  BatchSettings batch;
  ParallelSettings parallel;
  PrecisionSettings precision;
  RecomputeSettings recompute;
  optim::OptimizerConfig optimizer;
  double z_loss = 0;
  CheckpointSettings checkpoint;
  MetricsSettings metrics;
  HealthSettings health;
  DebugSettings debug;

  // Microbatches of one data rank in one step, stand-ins included (engine::Batch).
  std::int64_t microbatches() const { return microbatches_of(batch.global); }
  // The same in each stage of the batch's ramp.
  std::int64_t microbatches(const BatchStage& stage) const {
    return microbatches_of(stage.global);
  }
  // Data ranks, the last ones, for which a step of so many sequences has one microbatch
  // less than for the others.
  std::int64_t stand_ins(std::int64_t global) const {
    return microbatches_of(global) * parallel.mesh.data - global / batch.micro;
  }
  // Stages of steps that are alike; one without ramps.
  std::vector<BatchStage> stages() const {
    return batch_stages(batch.global, model.sequence, batch.ramp, batch.sequence_ramp);
  }
  // In any stage.
  bool has_stand_ins() const {
    const std::vector<BatchStage> all = stages();
    return std::any_of(all.begin(), all.end(), [&](const BatchStage& stage) {
      return stand_ins(stage.global) > 0;
    });
  }
  BatchStage stage_of(std::int64_t step) const { return stage_at(stages(), step); }
  bool passes_over(std::int64_t step) const { return holds(batch.passed_over, step); }
  // The number of the update that a step is, if those before it were made: of Adam's
  // corrections, which are of the moments' beginning.
  std::int64_t updates_until(std::int64_t step) const {
    return step - steps_before(batch.passed_over, step);
  }
  // Steps behind `from`, up to `to`, that are trained.
  std::int64_t trained_steps(std::int64_t from, std::int64_t to) const {
    return updates_until(to + 1) - updates_until(from + 1);
  }
  // Whether FP8 products may be made in so many parts of rows, over tensor ranks: with
  // scales of blocks each part wants a multiple of 8.
  bool cuts_rows_evenly(int parts) const {
    const Scaling scaling = precision.recipe[TensorClass::forward_operand].scaling;
    if (scaling != Scaling::blocks && scaling != Scaling::mx) return true;
    const std::int64_t ranks =
        parallel.mesh.context * (parallel.sequence ? parallel.mesh.tensor : 1);
    return batch.micro * model.sequence % (8 * parts * ranks) == 0;
  }
  // Whether sequences are cut into documents of their own, by tokens or by their places.
  bool has_documents() const {
    return data.packing != io::Packing::none || !batch.sequence_ramp.empty() ||
           learns_pairs();
  }
  bool drops() const { return model.drops() || adapter.matrices.dropout > 0; }
  bool learns_pairs() const { return train.objective == Objective::dpo; }

 private:
  std::int64_t microbatches_of(std::int64_t global) const {
    return divide_up(global, batch.micro * parallel.mesh.data);
  }
};

// Reads the deck for a world of `ranks` ranks, of which ranks_on_node (0: all) share a
// node. Every rule that involves more than one key is checked (check_rules() of
// config/rules.hpp), and all broken rules are reported together, each naming its keys,
// their values and the fix, after the deck's own problems if it was loaded leniently.
// Rules about keys that are not sound are not judged. Throws Error(bad_content);
// Error(resources) when another number of ranks would satisfy every broken rule;
// Error(command_line) when only overrides are wrong.
RunConfig make_run_config(const io::Deck& deck, int ranks, int ranks_on_node = 0);

// The same of the deck that a checkpoint has, which an older version may have written.
RunConfig stored_run_config(const io::Deck& deck, int ranks);

// The same before any rule is checked: what the deck says, with defaults that depend on
// other keys resolved.
RunConfig read_run_config(const io::Deck& deck, int ranks, int ranks_on_node);

struct LoadedRun {
  io::Deck deck;
  RunConfig config;
};

// Reads a deck file with overrides for `ranks` ranks and reports everything that is wrong
// with it at once: syntax, keys, values and rules. Throws as Deck::load() and
// make_run_config(). read_model: what the model is that model.from names.
LoadedRun load_run(const std::string& path, std::span<const std::string> overrides,
                   int ranks, int ranks_on_node = 0, const ReadModel& read_model = {});

}  // namespace trireme::config
