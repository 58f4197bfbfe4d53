// Plan.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

#include <numeric>

#include "train/engine.hpp"

namespace trireme::plan {

std::int64_t Plan::total_memory() const {
  return std::accumulate(memory.begin(), memory.end(), std::int64_t{0});
}

Plan make_plan(const train::RunConfig& config, int rank) {
  comm::Mesh mesh = comm::Mesh::meta(config.parallel.mesh, rank, config.parallel.folding);
  train::Engine engine(config, mesh, Device::meta());
  optim::ParameterStore& store = engine.store();
  const comm::Group& tensor = mesh.group(comm::Axis::tensor);
  const std::int64_t tensor_before = tensor.bytes_sent();

  const std::int64_t tokens =
      config.batch.micro * static_cast<std::int64_t>(engine.positions().size());
  const TensorView ids_T(nullptr, DType::i32, {tokens}, Device::meta());
  const std::vector<TensorView> ids(static_cast<std::size_t>(config.microbatches()),
                                    ids_T);
  engine.begin_step();
  engine.run(ids, ids, 1.0);
  engine.finish_step();

  Plan plan;
  const auto set = [&](MemoryClass c, std::size_t bytes) {
    plan.memory[static_cast<std::size_t>(c)] = static_cast<std::int64_t>(bytes);
  };
  set(MemoryClass::weights, store.weight_bytes());
  set(MemoryClass::gradients, store.gradient_bytes());
  set(MemoryClass::optimizer, store.optimizer_bytes());
  set(MemoryClass::activations, engine.activation_bytes());
  set(MemoryClass::communication, store.communication_bytes() + tensor.staging_bytes() +
                                      mesh.replicas().staging_bytes());
  set(MemoryClass::workspace, engine.workspace_bytes());
  plan.local_parameters = store.local_elements();
  plan.parameters = model::parameter_count(config.model);
  plan.tensor_bytes = tensor.bytes_sent() - tensor_before;
  plan.data_bytes = mesh.replicas().bytes_sent();
  plan.flops_per_step = model::flops_per_token(config.model).full *
                        static_cast<double>(config.batch.global * config.model.sequence);
  return plan;
}

std::string describe(const train::RunConfig& config, const Plan& plan) {
  const auto& mesh = config.parallel.mesh;
  std::string text;
  text += format(
      "model     {} layers, hidden {}, heads {} ({} key/value), vocabulary {}: {} "
      "parameters ({} on this rank)\n",
      config.model.layers, config.model.hidden, config.model.heads, config.model.kv_heads,
      config.model.vocabulary, plan.parameters, plan.local_parameters);
  text += format(
      "mesh      {} ranks = pipeline {} x data {} x context {} x tensor {}{}; all {} "
      "blocks on one stage\n",
      mesh.size(), mesh.pipeline, mesh.data, mesh.context, mesh.tensor,
      config.parallel.sequence ? " (sequence parallel)" : "", config.model.layers);
  text += format(
      "batch     {} sequences of {} tokens a step: {} microbatches of {} on each data "
      "rank\n",
      config.batch.global, config.model.sequence, config.microbatches(),
      config.batch.micro);
  text += "memory   ";
  for (int i = 0; i < memory_classes; ++i) {
    const auto c = static_cast<MemoryClass>(i);
    if (c == MemoryClass::data) continue;
    const auto bytes = plan.memory[static_cast<std::size_t>(i)];
    text += format(" {} {},", name_of(c), human_bytes(static_cast<double>(bytes)));
  }
  text +=
      format(" total {} a rank\n", human_bytes(static_cast<double>(plan.total_memory())));
  text += format(
      "traffic   a rank sends {} a step over the tensor axis, {} over the data axis\n",
      human_bytes(static_cast<double>(plan.tensor_bytes)),
      human_bytes(static_cast<double>(plan.data_bytes)));
  text += format("work      {}FLOP a step ({} a token)", human_count(plan.flops_per_step),
                 human_count(model::flops_per_token(config.model).full));
  return text;
}

}  // namespace trireme::plan
