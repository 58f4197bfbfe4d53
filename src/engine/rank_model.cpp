// RankModel: building the stages of a rank.
// SPDX-License-Identifier: Apache-2.0
#include "engine/rank_model.hpp"

#include <algorithm>
#include <bit>

#include "base/device_memory.hpp"
#include "engine/planned_device.hpp"
#include "engine/run_outlook.hpp"
#include "parallel/ring_attention.hpp"
#include "parallel/ulysses_attention.hpp"
#include "schedule/stage_cut.hpp"

namespace trireme::engine {

namespace {

// With NCCL what is summed travels without the host, so that cutting it costs little.
int tensor_chunks(const config::RunConfig& config, const comm::Mesh& mesh) {
  if (config.parallel.tensor_chunks > 0) return config.parallel.tensor_chunks;
  if (config.adapter.matrices.dropout > 0) return 1;  // it drops whole inputs
  const bool by_nccl = mesh.transport() == comm::Transport::nccl;
  return by_nccl && config.cuts_rows_evenly(2) ? 2 : 1;
}

// A pass over the gradient of the projection for each chunk is paid by memory, of which
// larger GPUs have more. A power of two is the same for what a data sheet and a driver
// say of one GPU, up to 7 % less than whole GiB: no memory of today is near a step of it.
std::int64_t logits_bytes_of(std::int64_t gpu_bytes) {
  constexpr std::int64_t usual = std::int64_t{1} << 30, share = 56;
  if (gpu_bytes <= 0) return usual;
  const auto part = std::bit_floor(static_cast<std::uint64_t>(gpu_bytes / share));
  return std::clamp(static_cast<std::int64_t>(part), usual / 16, 4 * usual);
}

nn::LinearPrecision products_of(const Recipe& recipe) {
  if (!recipe.fp8()) return {};
  return {recipe[TensorClass::forward_operand], recipe[TensorClass::backward_operand],
          is_fp8(recipe[TensorClass::weight].type)};
}

}  // namespace

// A GPU pays for each chunk with a pass over the gradient of the projection, and its
// tiles want whole rows of them; a CPU's caches want small chunks. Where memory sets the
// pace, logits of fewer bits gain; a host keeps the bits that it always had.
nn::HeadChunks head_chunks(const config::RunConfig& config, bool for_gpu) {
  using config::LogitsType;
  nn::HeadChunks chunks;
  if (for_gpu) chunks = {.bytes = logits_bytes_of(config.run.gpu_bytes), .multiple = 256};
  if (config.run.logits_bytes > 0) chunks.bytes = config.run.logits_bytes;
  const LogitsType type = config.precision.logits;
  chunks.in_compute_type =
      type == LogitsType::compute || (type == LogitsType::by_device && for_gpu);
  return chunks;
}

RankModel::RankModel(const config::RunConfig& config, comm::Mesh& mesh, Device device)
    : config_(config),
      mesh_(mesh),
      region_(mesh.group(comm::Axis::tensor), config.parallel.sequence,
              tensor_chunks(config, mesh)),
      amax_region_(mesh.group(comm::Axis::tensor), mesh.group(comm::Axis::context)),
      shape_(pipeline_shape(config)) {
  build_attention();
  fill_positions(device);
  build_chunks(device);
}

// A number for each sequence of each step, the same on every mesh: its place in the order
// of samples, but for a batch that grows (batch.ramp), whose steps count as whole ones.
nn::DropoutRows RankModel::dropout_rows(std::int64_t step,
                                        std::int64_t microbatch) const {
  const auto& batch = config_.batch;
  const std::int64_t piece =
      microbatch * config_.parallel.mesh.data + mesh_.coordinate(comm::Axis::data);
  return {.active = config_.drops(),
          .seed = config_.run.seed,
          .first_sequence = (step - 1) * batch.global + piece * batch.micro,
          .sequence = config_.model.sequence,
          .positions_T = positions_T()};
}

void RankModel::build_attention() {
  comm::Group& context = mesh_.group(comm::Axis::context);
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

void RankModel::fill_positions(Device device) {
  const auto S = static_cast<std::int64_t>(sequence_positions_.size());
  positions_ = Buffer(device, DType::i32, {config_.batch.micro * S},
                      MemoryClass::workspace, "positions");
  std::vector<std::int32_t> positions(
      static_cast<std::size_t>(positions_.view().elements()));
  for (std::size_t t = 0; t < positions.size(); ++t) {
    positions[t] =
        static_cast<std::int32_t>(sequence_positions_[t % sequence_positions_.size()]);
  }
  Stream stream(device);
  copy_bytes(stream, TensorView(positions.data(), DType::i32, positions_.view().shape()),
             positions_.view());
}

// Without the number of its first module.
model::StageConfig RankModel::stage_config(const Chunk& chunk, const Range& blocks,
                                           Device device) const {
  const int last = stages(shape_) - 1;
  const config::PrecisionSettings& precision = config_.precision;
  return {
      .model = config_.model,
      .blocks = blocks,
      .first = chunk.first,
      .last = chunk.last,
      .ends_together = place_of(shape_, 0).rank == place_of(shape_, last).rank,
      .dtype = precision.compute,
      .z_loss = config_.z_loss,
      .head_chunks = head_chunks(config_, for_gpu(mesh_, device)),
      .positions = 0,
      .first_module = 0,
      .recompute = config_.recompute.what,
      .recompute_layers =
          config_.recompute.layers > 0 ? config_.recompute.layers : config_.model.layers,
      .products = products_of(precision.recipe),
      .fp8_blocks = {precision.first_bf16, config_.model.layers - precision.last_bf16},
      .scaling = {precision.amax_history, precision.margin},
      .keep_weight_codes = precision.keep_weight_codes,
      .adapter = config_.adapter.matrices};
}

void RankModel::build_chunks(Device device) {
  const int last = stages(shape_) - 1;
  const int rank = mesh_.group(comm::Axis::pipeline).rank();
  const auto cut =
      schedule::cut_stages(config_.model, last + 1, config_.parallel.stage_layers);
  const auto is_here = [&](int stage) {
    return stage >= 0 && stage <= last && place_of(shape_, stage).rank == rank;
  };
  int modules = 0;
  Param* table = nullptr;
  for (int c = 0; c < shape_.chunks; ++c) {
    Chunk& chunk = chunks_.emplace_back();
    chunk.number = stage_of(shape_, rank, c);
    chunk.first = chunk.number == 0;
    chunk.last = chunk.number == last;
    chunk.before_here = is_here(chunk.number - 1);
    chunk.after_here = is_here(chunk.number + 1);
    model::StageConfig stage =
        stage_config(chunk, cut[static_cast<std::size_t>(chunk.number)], device);
    stage.first_module = modules;
    const parallel::ExpertAxes axes{
        parallel::ExpertDispatch(mesh_.experts(), config_.parallel.expert_memory,
                                 products_of(config_.precision.recipe).rows_of_a_scale()),
        parallel::SequenceSum(mesh_.group(comm::Axis::context))};
    chunk.stage = std::make_unique<model::Stage>(stage, region_, device, axes, table);
    if (table == nullptr) table = chunk.stage->table();
    modules += static_cast<int>(chunk.stage->modules().size());
  }
}

std::size_t RankModel::chunk_of_stage(int number) const {
  return static_cast<std::size_t>(place_of(shape_, number).chunk);
}

Shape RankModel::activation_shape() const {
  const auto tokens =
      config_.batch.micro * static_cast<std::int64_t>(sequence_positions_.size());
  return {region_.outside_rows(tokens).count(), config_.model.hidden};
}

std::vector<ParamModule> RankModel::modules() {
  std::vector<ParamModule> all;
  for (Chunk& chunk : chunks_)
    for (ParamModule& module : chunk.stage->modules()) all.push_back(std::move(module));
  return all;
}

std::vector<StateTensor*> RankModel::states() {
  std::vector<StateTensor*> all;
  for (Chunk& chunk : chunks_)
    for (StateTensor* state : chunk.stage->states()) all.push_back(state);
  return all;
}

std::vector<nn::Fp8State*> RankModel::fp8_states() {
  std::vector<nn::Fp8State*> all;
  for (Chunk& chunk : chunks_)
    if (nn::Fp8State* scales = chunk.stage->scales()) all.push_back(scales);
  return all;
}

void RankModel::attach(WeightAccess& weights) {
  weights_ = &weights;
  for (Chunk& chunk : chunks_) chunk.stage->attach(weights);
}

void RankModel::begin_step(Stream& stream) {
  for (Chunk& chunk : chunks_)
    for (nn::Moe* moe : chunk.stage->moe_layers()) moe->clear_step();
  for (nn::Fp8State* scales : fp8_states()) scales->begin_step(stream);
  forget_codes();
}

void RankModel::forget_codes() {
  for (Chunk& chunk : chunks_) chunk.stage->weights_changed();
}

void RankModel::weights_updated() {
  for (Chunk& chunk : chunks_)
    for (nn::Moe* moe : chunk.stage->moe_layers()) moe->update_bias();
  weights_changed();
}

void RankModel::weights_changed() {
  for (nn::Fp8State* scales : fp8_states()) scales->weights_changed();
  forget_codes();
}

std::size_t RankModel::table_bytes() const {
  std::size_t sum = positions_.bytes();
  for (const Chunk& chunk : chunks_) sum += chunk.stage->table_bytes();
  return sum;
}

}  // namespace trireme::engine
