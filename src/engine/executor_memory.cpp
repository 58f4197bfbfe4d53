// Executor: the memory of the microbatches that are alive at once.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "config/recorded_sums.hpp"
#include "engine/executor.hpp"
#include "engine/planned_device.hpp"
#include "kernels/runtime/working_memory.hpp"
#include "schedule/shared_schedules.hpp"

namespace trireme::engine {
namespace {

// Microbatches whose activations a chunk holds at once, and that with most of them.
std::int64_t slots_of(const schedule::Schedule& schedule, int chunk) {
  return std::max<std::int64_t>(live_slots(schedule, chunk), 1);
}

// What each chunk of a rank holds at once, in any stage of the batch's ramp.
struct Slots {
  std::vector<std::int64_t> live, gradients;
  std::int64_t most = 0;
};
Slots most_slots(const config::RunConfig& config, schedule::PipelineShape shape,
                 int rank) {
  Slots slots;
  slots.live.resize(static_cast<std::size_t>(shape.chunks));
  slots.gradients.resize(slots.live.size());
  std::set<std::int64_t> counts{config.microbatches()};
  if (!config.batch.ramp.empty())
    for (const config::BatchStage& stage : config.stages())
      counts.insert(config.microbatches(stage));
  for (const std::int64_t count : counts) {
    shape.microbatches = count;
    const auto all = schedule::shared_schedules(shape);
    const schedule::Schedule& mine = (*all)[static_cast<std::size_t>(rank)];
    for (int c = 0; c < shape.chunks; ++c) {
      const auto at = static_cast<std::size_t>(c);
      slots.live[at] = std::max(slots.live[at], slots_of(mine, c));
      slots.gradients[at] =
          std::max(slots.gradients[at], gradient_receive_slots(mine, c));
      slots.most = std::max(slots.most, slots.live[at]);
    }
  }
  return slots;
}

}  // namespace

Executor::Executor(const config::RunConfig& config, comm::Mesh& mesh, RankModel& model,
                   optim::ParameterStore& store, Device device, ActivationDemand demand)
    : config_(config),
      device_(device),
      pipeline_(mesh.group(comm::Axis::pipeline)),
      pairs_{parallel::SequenceSum(mesh.group(comm::Axis::context))},
      model_(model),
      store_(store),
      demand_(std::move(demand)),
      times_(device) {
  const schedule::PipelineShape& shape = model.shape();
  const Slots slots = most_slots(config, shape, pipeline_.rank());
  schedule::PipelineShape one = shape;
  one.microbatches = 1;
  forward_schedule_ = forward_schedules(one)[to_size(pipeline_.rank())];
  loss_ = Buffer(device, DType::f64, {1}, MemoryClass::workspace, "loss");
  if (for_gpu(mesh, device)) {
    tokens_ = TokenBuffers(device, slots.most, model.positions_T().elements());
    document_slots_ = slots.most;
    if (config.has_documents())
      documents_ = TokenBuffers(device, 2 * document_slots_ * shape.chunks,
                                model.positions_T().elements());
  }
  if (config.parallel.offload_activations) offload_.emplace(device, demand_.offloaded);
  for (int c = 0; c < shape.chunks; ++c)
    allocate_chunk(c, device, slots.live[to_size(c)], slots.gradients[to_size(c)]);
  follow(shape.microbatches);
  if (config.run.cuda_graphs) prepare_graphs(mesh);
  scratch_.emplace(device, demand_.scratch, MemoryClass::workspace, "scratch");
  recomputed_.emplace(device, demand_.recomputed, MemoryClass::activations,
                      "recomputed activations");
  kernels::reserve_working_memory(device, demand_.kernels);
}

void Executor::follow(std::int64_t microbatches) {
  if (std::ssize(memory_.front().slots) == microbatches) return;
  schedule::PipelineShape shape = model_.shape();
  shape.microbatches = microbatches;
  schedule_ = (*schedule::shared_schedules(shape))[to_size(pipeline_.rank())];
  for (int c = 0; c < shape.chunks; ++c) {
    ChunkMemory& memory = memory_[to_size(c)];
    require(slots_of(schedule_, c) <= std::ssize(memory.live) &&
                gradient_receive_slots(schedule_, c) <= std::ssize(memory.gradients_in),
            "a step of {} microbatches, for which no memory was planned", microbatches);
    memory.slots = assign_slots(schedule_, c, schedule::Lifetime::input);
    memory.gradient_slots = assign_slots(schedule_, c, schedule::Lifetime::gradient);
  }
  warmth_.runs = 0;  // its first run comes as the first of all does
}

void Executor::allocate_chunk(int c, Device device, std::int64_t slots,
                              std::int64_t gradients) {
  const DType sent = config_.precision.recipe[TensorClass::pipeline_traffic].type;
  const std::size_t saved = demand_.saved.empty() ? 0 : demand_.saved[to_size(c)];
  ChunkMemory& memory = memory_.emplace_back();
  for (std::int64_t i = 0; i < slots; ++i) {
    memory.live.push_back(
        {.saved = Arena(device, saved, MemoryClass::activations, "activations"),
         .blocks = offloaded_blocks(c)});
  }
  for (std::int64_t i = 0; i < gradients; ++i) {
    memory.gradients_in.push_back(
        {Buffer(device, sent, model_.activation_shape(), MemoryClass::communication,
                "received gradients"),
         {}});
  }
}

void Executor::Live::begin_forward(const model::Stage& stage, const void* place) {
  const auto [at, is_new] = forwards.try_emplace(place);
  forward = &at->second;
  if (!is_new) return;
  forward->views = stage.make_saved();
  forward->views.kept = blocks.get();
}

// A forward that was launched as a graph took nothing from the arena, though its
// activations lie there.
void Executor::Live::keep_forward() {
  const std::size_t taken = saved.mark();
  if (taken >= forward->saved_bytes) return;
  saved.take(DType::u8, {static_cast<std::int64_t>(forward->saved_bytes - taken)},
             "activations of a launched forward");
}

// Null where a chunk has none.
std::unique_ptr<OffloadedBlocks> Executor::offloaded_blocks(int c) {
  const model::StageConfig& stage = model_.chunks()[to_size(c)].stage->config();
  const auto blocks = static_cast<double>(stage.blocks.count());
  if (!offload_ || blocks == 0) return nullptr;
  const double moved = std::ceil(config_.parallel.offload_activations_fraction * blocks);
  const std::vector<std::size_t>& away = demand_.offloaded.host;
  return std::make_unique<OffloadedBlocks>(*offload_, static_cast<std::size_t>(moved),
                                           away.empty() ? 0 : away[to_size(c)]);
}

void Executor::prepare_graphs(comm::Mesh& mesh) {
  require(for_gpu(mesh, device_), Status::resources,
          "run.cuda_graphs = true, but this program has no GPU to compute or plan for: "
          "use one that was built with CUDA, or write run.cuda_graphs = false");
  recording_.numbers = Buffer(device_, DType::f64, {2}, MemoryClass::workspace,
                              "numbers that recorded kernels read");
  recording_.rests = config_.parallel.sharding >= optim::Sharding::gradients;
  recording_.rests_activations = offload_.has_value();
  const bool sums = (recording_.rests ? mesh.copies() : mesh.replicas()).size() > 1;
  sums_.begin_early = sums || config_.has_stand_ins();
  sums_.last.assign(memory_.size(), -1);
  for (const schedule::Action& action : schedule_)
    if (action.kind == schedule::ActionKind::backward ||
        action.kind == schedule::ActionKind::backward_weight)
      sums_.last[to_size(action.chunk)] = action.microbatch;
  if (!device_.is_cuda()) return;
  graphs_.emplace(device_);
  recording_.sums = sums && config::records_sums(config_);
  const comm::MeshShape& ranks = config_.parallel.mesh;
  const bool in_graphs = ranks.tensor * ranks.context > 1 || recording_.sums ||
                         (recording_.rests && config_.parallel.folding.shard > 1);
  // Which scales stand changes on each stage for itself.
  const bool by_history =
      config_.precision.recipe[TensorClass::forward_operand].scaling == Scaling::delayed;
  if (in_graphs || (by_history && mesh.everyone().size() > 1))
    recording_.everyone = &mesh.everyone();
  recording_.by_steps =
      recording_.everyone != nullptr || defers_weights(config_.parallel.schedule);
}

ActivationDemand::Evaluation Executor::reached() const {
  ActivationDemand::Evaluation out{recomputed_->peak_bytes(), scratch_->peak_bytes()};
  if (offload_) out.activations += offload_->reached().device_bytes();
  for (const ChunkMemory& memory : memory_) {
    std::size_t most = 0;
    for (const Live& live : memory.live) most = std::max(most, live.saved.peak_bytes());
    out.activations += most;
  }
  return out;
}

void Executor::note_demand(std::int64_t kernels,
                           const ActivationDemand::Evaluation& evaluation) {
  demand_ = {};
  demand_.kernels = kernels;
  demand_.evaluation = evaluation;
  if (offload_) demand_.offloaded = offload_->reached();
  for (const ChunkMemory& memory : memory_) {
    std::size_t most = 0, away = 0;
    for (const Live& live : memory.live) {
      most = std::max(most, live.saved.peak_bytes());
      if (live.blocks) away = std::max(away, live.blocks->peak_bytes());
    }
    demand_.saved.push_back(most);
    demand_.offloaded.host.push_back(away);
  }
  demand_.scratch = scratch_->peak_bytes();
  demand_.recomputed = recomputed_->peak_bytes();
}

Executor::Bytes Executor::bytes() const {
  Bytes sum;
  sum.activations = demand_.recomputed + demand_.offloaded.device_bytes();
  for (std::size_t c = 0; c < memory_.size(); ++c) {
    sum.activations += memory_[c].live.size() * demand_.saved[c];
    if (offload_) sum.offloaded += memory_[c].live.size() * demand_.offloaded.host[c];
    for (const GradientIn& gradient : memory_[c].gradients_in)
      sum.received_gradients += gradient.memory.bytes();
  }
  sum.pinned = tokens_.pinned_bytes() + documents_.pinned_bytes();
  sum.workspace = demand_.scratch + loss_.bytes() + tokens_.device_bytes() +
                  documents_.device_bytes() + recording_.numbers.bytes();
  return sum;
}

}  // namespace trireme::engine
