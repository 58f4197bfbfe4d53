// Engine: building the stages of a rank and their memory.
// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include <algorithm>

#include "base/device_memory.hpp"
#include "comm/meta_group.hpp"
#include "kernels/runtime/working_memory.hpp"
#include "optim/parameter_groups.hpp"
#include "parallel/ring_attention.hpp"
#include "parallel/ulysses_attention.hpp"
#include "schedule/stage_cut.hpp"

namespace trireme::engine {
namespace {

optim::StoreConfig store_config(const config::RunConfig& config) {
  const config::ParallelSettings& parallel = config.parallel;
  return {.recipe = config.precision.recipe,
          .rule = &config.optimizer.rule(),
          .bucket_bytes = parallel.bucket_bytes,
          .training = true,
          .sharding = parallel.sharding,
          .wrap_parameters = parallel.wrap_parameters,
          .prefetch = parallel.prefetch,
          .gathered_units = parallel.gathered_units,
          .offload = parallel.offload,
          .seed = config.run.seed,
          .error_feedback = config.precision.error_feedback,
          .reports = config.precision.report_every > 0};
}

// Microbatches whose activations a chunk holds at once, and that with most of them.
std::int64_t slots_of(const schedule::Schedule& schedule, int chunk) {
  return std::max<std::int64_t>(live_slots(schedule, chunk), 1);
}
std::int64_t most_slots(const schedule::Schedule& schedule,
                        const schedule::PipelineShape& shape) {
  std::int64_t most = 0;
  for (int c = 0; c < shape.chunks; ++c) most = std::max(most, slots_of(schedule, c));
  return most;
}

}  // namespace

Engine::Engine(const config::RunConfig& config, comm::Mesh& mesh, Device device)
    : config_(config),
      device_(device),
      mesh_(mesh),
      pipeline_(mesh.group(comm::Axis::pipeline)),
      region_(mesh.group(comm::Axis::tensor), config.parallel.sequence,
              config.parallel.tensor_chunks),
      amax_region_(mesh.group(comm::Axis::tensor), mesh.group(comm::Axis::context)),
      shape_{config.parallel.schedule, mesh.shape().pipeline,
             config.parallel.virtual_stages, config.microbatches()},
      totals_(mesh, device.is_meta() ? device : Device::host()),
      clock_(device) {
  if (config.precision.compute == DType::f16)
    scaler_.emplace(config.precision.loss_scale);
  schedule_ = make_schedules(shape_)[to_size(pipeline_.rank())];
  schedule::PipelineShape one = shape_;
  one.microbatches = 1;
  forward_schedule_ = forward_schedules(one)[to_size(pipeline_.rank())];
  build_attention(mesh);
  fill_positions();
  build_chunks(device);
  build_store(mesh, device);
  if (device.is_meta()) {
    allocate(device);
    demand_ = measure(*this);
    return;
  }
  comm::Mesh planned =
      comm::Mesh::meta(mesh.shape(), mesh.rank(), mesh.folding(), device);
  demand_ = Engine(config, planned, Device::meta()).demand();
  allocate(device);
}

void Engine::build_attention(comm::Mesh& mesh) {
  comm::Group& context = mesh.group(comm::Axis::context);
  if (context.size() == 1) {
    attention_ = std::make_unique<parallel::LocalAttention>();
  } else if (config_.parallel.ulysses) {
    attention_ = std::make_unique<parallel::UlyssesAttention>(context);
  } else {
    attention_ =
        std::make_unique<parallel::RingAttention>(context, config_.parallel.order);
  }
  sequence_positions_ = parallel::context_positions(
      config_.parallel.order, config_.model.sequence, context.size(), context.rank());
}

void Engine::fill_positions() {
  const auto S = static_cast<std::int64_t>(sequence_positions_.size());
  positions_ = Buffer(device_, DType::i32, {config_.batch.micro * S},
                      MemoryClass::workspace, "positions");
  std::vector<std::int32_t> positions(to_size(positions_.view().elements()));
  for (std::size_t t = 0; t < positions.size(); ++t) {
    positions[t] =
        static_cast<std::int32_t>(sequence_positions_[t % sequence_positions_.size()]);
  }
  Stream stream(device_);
  copy_bytes(stream, TensorView(positions.data(), DType::i32, positions_.view().shape()),
             positions_.view());
}

void Engine::build_chunks(Device device) {
  const int last = stages(shape_) - 1, rank = pipeline_.rank();
  const auto cut =
      schedule::cut_stages(config_.model, last + 1, config_.parallel.stage_layers);
  const bool ends_together = place_of(shape_, 0).rank == place_of(shape_, last).rank;
  const config::PrecisionSettings& precision = config_.precision;
  nn::LinearPrecision products;
  if (precision.recipe.fp8())
    products = {precision.recipe[TensorClass::forward_operand],
                precision.recipe[TensorClass::backward_operand],
                is_fp8(precision.recipe[TensorClass::weight].type)};
  int modules = 0;
  chunks_.resize(to_size(shape_.chunks));
  Param* table = nullptr;
  for (int c = 0; c < shape_.chunks; ++c) {
    Chunk& chunk = chunks_[to_size(c)];
    chunk.number = stage_of(shape_, rank, c);
    const auto is_here = [&](int stage) {
      return stage >= 0 && stage <= last && place_of(shape_, stage).rank == rank;
    };
    chunk.before_here = is_here(chunk.number - 1);
    chunk.after_here = is_here(chunk.number + 1);
    const model::StageConfig stage{
        .model = config_.model,
        .blocks = cut[to_size(chunk.number)],
        .first = chunk.number == 0,
        .last = chunk.number == last,
        .ends_together = ends_together,
        .dtype = config_.precision.compute,
        .z_loss = config_.z_loss,
        .positions = 0,
        .first_module = modules,
        .recompute = config_.recompute.what,
        .recompute_layers = config_.recompute.layers > 0 ? config_.recompute.layers
                                                         : config_.model.layers,
        .products = products,
        .fp8_blocks = {precision.first_bf16, config_.model.layers - precision.last_bf16},
        .scaling = {precision.amax_history, precision.margin}};
    const parallel::ExpertAxes axes{
        parallel::ExpertDispatch(mesh_.experts()),
        parallel::SequenceSum(mesh_.group(comm::Axis::context))};
    chunk.stage = std::make_unique<model::Stage>(stage, region_, device, axes, table);
    if (table == nullptr) table = chunk.stage->table();
    modules += static_cast<int>(chunk.stage->modules().size());
  }
}

void Engine::build_store(comm::Mesh& mesh, Device device) {
  std::vector<ParamModule> modules;
  for (Chunk& chunk : chunks_) {
    for (ParamModule& module : chunk.stage->modules()) {
      for (Param* param : module.params) optim::apply_groups(config_.optimizer, *param);
      modules.push_back(std::move(module));
    }
  }
  store_.emplace(modules, store_config(config_), mesh, device);
  for (Chunk& chunk : chunks_) chunk.stage->attach(*store_);
  if (config_.model.has_experts()) {
    loads_ =
        Buffer(device, DType::f64, {config_.model.layers * config_.model.moe.experts + 2},
               MemoryClass::workspace, "expert loads");
    loads_on_host_.assign(to_size(loads_.view().elements()), 0.0);
  }
}

Shape Engine::activation_shape() const {
  const auto tokens =
      config_.batch.micro * static_cast<std::int64_t>(sequence_positions_.size());
  return {region_.outside_rows(tokens).count(), config_.model.hidden};
}

void Engine::allocate(Device device) {
  loss_ = Buffer(device, DType::f64, {1}, MemoryClass::workspace, "loss");
  std::int64_t amaxes = 0;
  for (Chunk& chunk : chunks_)
    if (const nn::Fp8State* scales = chunk.stage->scales())
      amaxes = std::max(amaxes, scales->amaxes());
  if (config_.precision.recipe.fp8() && config_.precision.report_every > 0)
    fp8_report_.emplace(device);
  const Device host = plans_for_gpu()    ? comm::planned_host
                      : device.is_meta() ? device
                                         : Device::host();
  if (amaxes > 0)
    amaxes_ = Buffer(host, DType::f32, {amaxes}, MemoryClass::workspace,
                     "FP8 amax on the host");
  if (for_gpu()) {
    ids_ = Buffer(device, DType::i32,
                  {2 * most_slots(schedule_, shape_), positions_.view().elements()},
                  MemoryClass::workspace, "tokens");
  }
  const DType sent = config_.precision.recipe[TensorClass::pipeline_traffic].type;
  for (int c = 0; c < shape_.chunks; ++c) {
    Chunk& chunk = chunks_[to_size(c)];
    const std::size_t saved = demand_.saved.empty() ? 0 : demand_.saved[to_size(c)];
    const std::int64_t slots = slots_of(schedule_, c);
    for (std::int64_t i = 0; i < slots; ++i) {
      chunk.live.push_back({Arena(device, saved, MemoryClass::activations, "activations"),
                            chunk.stage->make_saved(),
                            {},
                            {},
                            {},
                            {},
                            {},
                            {}});
    }
    chunk.slots = assign_slots(schedule_, c, schedule::Lifetime::input);
    const auto gradients = gradient_receive_slots(schedule_, c);
    for (std::int64_t i = 0; i < gradients; ++i) {
      chunk.gradients_in.push_back(
          {Buffer(device, sent, activation_shape(), MemoryClass::communication,
                  "received gradients"),
           {}});
    }
    chunk.gradient_slots = assign_slots(schedule_, c, schedule::Lifetime::gradient);
  }
  if (config_.run.cuda_graphs) prepare_graphs();
  scratch_.emplace(device, demand_.scratch, MemoryClass::workspace, "scratch");
  recomputed_.emplace(device, demand_.recomputed, MemoryClass::activations,
                      "recomputed activations");
  kernels::reserve_working_memory(device, demand_.kernels);
}

void Engine::prepare_graphs() {
  require(for_gpu(), "run.cuda_graphs = true, but this engine does not compute on a GPU");
  scale_ = Buffer(device_, DType::f64, {1}, MemoryClass::workspace, "scale of the loss");
  for (const schedule::Action& action : schedule_)
    if (action.kind == schedule::ActionKind::backward) last_backward_ = action.microbatch;
  if (device_.is_cuda()) graphs_.emplace(device_);
}

// Runs a step and an evaluation on meta arenas.
ActivationDemand Engine::measure(Engine& engine) {
  const TensorView ids_T(nullptr, DType::i32, engine.positions_.view().shape(),
                         Device::meta());
  Batch batch{.step = 1, .valid_tokens = 1};
  batch.inputs.assign(to_size(engine.config_.microbatches()), ids_T);
  batch.targets = batch.inputs;
  StepObserver nobody;
  const kernels::WorkingMemoryCount count;
  engine.train_step(batch, nobody);
  engine.evaluate(ids_T, ids_T);
  ActivationDemand demand;
  demand.kernels = count.bytes();
  for (const Chunk& chunk : engine.chunks_) {
    std::size_t most = 0;
    for (const Live& live : chunk.live) most = std::max(most, live.saved.peak_bytes());
    demand.saved.push_back(most);
  }
  demand.scratch = engine.scratch_->peak_bytes();
  demand.recomputed = engine.recomputed_->peak_bytes();
  return demand;
}

std::size_t Engine::activation_bytes() const {
  std::size_t sum = demand_.recomputed;
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    sum += chunks_[c].live.size() * demand_.saved[c];
  return sum;
}

std::size_t Engine::communication_bytes() const {
  std::size_t sum = 0;
  for (const Chunk& chunk : chunks_) {
    for (const GradientIn& gradient : chunk.gradients_in) sum += gradient.memory.bytes();
  }
  return sum;
}

std::size_t Engine::workspace_bytes() const {
  std::size_t sum = demand_.scratch + positions_.bytes() + loss_.bytes() +
                    loads_.bytes() + amaxes_.bytes() + ids_.bytes() + scale_.bytes() +
                    store_->workspace_bytes() + (fp8_report_ ? fp8_report_->bytes() : 0);
  for (const Chunk& chunk : chunks_) sum += chunk.stage->table_bytes();
  return sum;
}

std::int64_t Engine::kernel_bytes() const {
  if (!for_gpu()) return 0;
  return kernels::working_memory_held(demand_.kernels) +
         kernels::product_working_memory();
}

}  // namespace trireme::engine
