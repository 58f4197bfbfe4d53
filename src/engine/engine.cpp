// Engine: building its parts, and what they take.
// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include <utility>

#include "base/split.hpp"
#include "engine/documents.hpp"
#include "engine/gpu_misfit.hpp"
#include "engine/planned_device.hpp"
#include "engine/training_flops.hpp"
#include "kernels/attention.hpp"
#include "kernels/gemm.hpp"
#include "kernels/runtime/working_memory.hpp"

namespace trireme::engine {
namespace {

// Small ones are there early, large ones use a network of many ranks better.
std::int64_t bucket_bytes(const config::ParallelSettings& parallel,
                          const comm::Mesh& mesh) {
  if (parallel.bucket_bytes > 0) return parallel.bucket_bytes;
  constexpr std::int64_t mebibyte = 1 << 20;
  return mesh.transport() == comm::Transport::nccl ? 200 * mebibyte : 25 * mebibyte;
}

optim::StoreConfig store_config(const config::RunConfig& config, const comm::Mesh& mesh,
                                Device device) {
  const config::ParallelSettings& parallel = config.parallel;
  return {.recipe = config.precision.recipe,
          .rule = &config.optimizer.rule(),
          .bucket_bytes = bucket_bytes(parallel, mesh),
          .training = true,
          .exact_sums = parallel.reproducible,
          .overwrites = !for_gpu(mesh, device),
          .sharding = parallel.sharding,
          .wrap_parameters = parallel.wrap_parameters,
          .wrap_names = parallel.wrap_names,
          .prefetch = parallel.prefetch,
          .gathered_units = parallel.gathered_units,
          .offload = parallel.offload,
          .offload_fraction = parallel.offload_fraction,
          .offload_directory = parallel.offload_directory,
          .seed = config.run.seed,
          .error_feedback = config.precision.error_feedback,
          .reports = config.precision.report_every > 0,
          .outer = config.optimizer.outer,
          .frozen_as_kept = config.adapter.matrices.exists()};
}

// What a step takes of one rank: it is run on meta.
ActivationDemand demand_of(const config::RunConfig& config, const comm::Mesh& mesh,
                           Device device) {
  if (device.is_meta()) return {};
  comm::Mesh planned =
      comm::Mesh::meta(mesh.shape(), mesh.rank(), mesh.folding(), device);
  return Engine(config, planned, Device::meta()).executor().demand();
}

// What the deck says of libraries, for this process from now on.
void choose_libraries(const config::RunConfig& config) {
  using kernels::AttentionLibrary;
  const config::RunSettings& run = config.run;
  switch (run.attention) {
    case config::AttentionChoice::automatic:
      kernels::set_attention_library(AttentionLibrary::automatic);
      break;
    case config::AttentionChoice::cudnn:
      kernels::set_attention_library(AttentionLibrary::cudnn);
      break;
    case config::AttentionChoice::own:
      kernels::set_attention_library(AttentionLibrary::own);
      break;
  }
  kernels::set_attention_deterministic(run.attention_deterministic);
  kernels::set_gemm_search(run.gemm_search);
  kernels::set_tf32(config.precision.tf32);
}

}  // namespace

Engine::Engine(const config::RunConfig& config, comm::Mesh& mesh, Device device)
    : config_(config),
      device_(device),
      mesh_(mesh),
      model_(config_, mesh, device),
      totals_(mesh, device),
      expert_loads_(config_.model, mesh, model_, device),
      fp8_scales_(mesh, model_, device),
      parts_(device) {
  for (comm::Group* group : mesh.groups())
    group->bound_staging(config.parallel.staging_bytes);
  if (device.is_cuda()) choose_libraries(config);
  if (config.precision.compute == DType::f16)
    scaler_.emplace(config.precision.loss_scale);
  if (config.health.steps.skips()) refused_.emplace();
  build_store();
  reports_.emplace(config_.precision, mesh, *store_, device);
  if (decides_on_device(config_, store_->config(), mesh, device))
    decision_.emplace(config_, mesh, device);
  executor_.emplace(config_, mesh, model_, *store_, device,
                    demand_of(config, mesh, device));
  if (device.is_meta()) measure();
}

void Engine::build_store() {
  const std::string misfit = for_gpu(mesh_, device_) ? gpu_misfit(config_) : "";
  require(misfit.empty(), Status::bad_content, "{}", misfit);
  std::vector<ParamModule> modules = model_.modules();
  for (ParamModule& module : modules)
    for (Param* param : module.params) mark_training(config_, *param);
  std::vector<CodedParam> coded = take_coded(config_.adapter, modules);
  store_.emplace(modules, store_config(config_, mesh_, device_), mesh_, device_);
  model_.attach(*store_);
  if (!coded.empty()) {
    base_.emplace(std::move(coded), config_, mesh_, *store_,
                  store_->config().bound_type(), device_);
    model_.attach(*base_);
  }
  if (device_.is_host()) model_.attach(own_gradients_.emplace(model_.weights()));
}

// Runs an evaluation and a step on meta arenas, in this order: the next step then begins
// as every later one does, with weights that nobody has gathered.
void Engine::measure() {
  const TensorView ids_T(nullptr, DType::i32, model_.positions_T().shape(),
                         Device::meta());
  Batch batch{.step = 1, .valid_tokens = 1};
  batch.inputs.assign(static_cast<std::size_t>(config_.microbatches()), ids_T);
  batch.targets = batch.inputs;
  nn::Documents documents;
  if (config_.has_documents()) documents = {ids_T, ids_T, ids_T};
  if (!documents.empty()) batch.documents.assign(batch.inputs.size(), documents);
  if (config_.learns_pairs())
    batch.answers.assign(batch.inputs.size(), meta_answers(config_));
  StepObserver nobody;
  const kernels::WorkingMemoryCount count;
  evaluate(ids_T, ids_T, {}, documents);
  if (!batch.answers.empty())
    log_probabilities(ids_T, ids_T, documents, batch.answers.front());
  const ActivationDemand::Evaluation evaluation = executor_->reached();
  train_step(batch, nobody);
  executor_->note_demand(count.bytes(), evaluation);
}

double Engine::evaluate(const TensorView& inputs_T, const TensorView& targets_T,
                        const nn::Head::EachChunk& each, const nn::Documents& documents) {
  return executor_->evaluate({inputs_T}, {targets_T}, documents, &each);
}

std::vector<double> Engine::log_probabilities(const TensorView& inputs_T,
                                              const TensorView& targets_T,
                                              const nn::Documents& documents,
                                              const nn::Answers& answers) {
  std::vector<double> values;
  executor_->evaluate({inputs_T}, {targets_T}, documents, nullptr, &answers, &values);
  return values;
}

std::int64_t Engine::vocabulary_begin() const {
  return split_range(config_.model.vocabulary, config_.parallel.mesh.tensor,
                     mesh_.coordinate(comm::Axis::tensor))
      .begin;
}

std::size_t Engine::workspace_bytes() const {
  return model_.table_bytes() + executor_->bytes().workspace + expert_loads_.bytes() +
         fp8_scales_.bytes() + reports_->bytes() + store_->workspace_bytes() +
         (base_ ? base_->working_bytes() : 0);
}

std::int64_t Engine::kernel_bytes() const {
  if (!for_gpu(mesh_, device_)) return 0;
  return kernels::working_memory_held(executor_->demand().kernels) +
         kernels::product_working_memory();
}

}  // namespace trireme::engine
