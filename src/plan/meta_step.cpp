// A training step on the meta device, as every plan runs it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/meta_step.hpp"

#include "engine/documents.hpp"

namespace trireme::plan {

// As the trainer runs it.
void run_meta_step(engine::Engine& engine, const config::RunConfig& config,
                   engine::StepObserver& observer) {
  const std::int64_t tokens =
      config.batch.micro * static_cast<std::int64_t>(engine.positions().size());
  const TensorView ids_T(nullptr, DType::i32, {tokens}, Device::meta());
  engine::Batch batch{.step = 1, .valid_tokens = 1};
  batch.inputs.assign(static_cast<std::size_t>(config.microbatches()), ids_T);
  batch.targets = batch.inputs;
  if (config.has_documents())
    batch.documents.assign(batch.inputs.size(), {ids_T, ids_T, ids_T});
  if (config.learns_pairs())
    batch.answers.assign(batch.inputs.size(), engine::meta_answers(config));
  engine.train_step(batch, observer);
}

void run_meta_step(engine::Engine& engine, const config::RunConfig& config) {
  engine::StepObserver nobody;
  run_meta_step(engine, config, nobody);
}

}  // namespace trireme::plan
