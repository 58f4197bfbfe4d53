// Parts of an engine's memory: their class, and the phases that use them.
// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_phases.hpp"

#include <utility>

#include "base/format.hpp"
#include "base/text_table.hpp"
#include "engine/batch_memory.hpp"
#include "engine/checkpoint_boxes.hpp"
#include "engine/engine.hpp"
#include "io/checkpoint_snapshot.hpp"
#include "io/shard_copies.hpp"

namespace trireme::plan {
namespace {

constexpr unsigned bit_of(MemoryPhase phase) {
  return 1U << static_cast<unsigned>(phase);
}
constexpr unsigned in_start = bit_of(MemoryPhase::start);
constexpr unsigned in_compute = bit_of(MemoryPhase::compute);
constexpr unsigned in_update = bit_of(MemoryPhase::update);
constexpr unsigned in_validation = bit_of(MemoryPhase::validation);
constexpr unsigned in_checkpoint = bit_of(MemoryPhase::checkpoint);
constexpr unsigned in_step = in_compute | in_update;
constexpr unsigned in_forward = in_compute | in_validation;
constexpr unsigned in_loop = in_step | in_validation | in_checkpoint;
constexpr unsigned always = in_start | in_loop;

// Adds up parts by class and phase.
class Parts {
 public:
  Parts(engine::Engine& engine, comm::Mesh& mesh, const config::RunConfig& config)
      : engine_(engine), store_(engine.store()), mesh_(mesh), config_(config) {}

  HeldMemory sum() {
    add_store();
    add_activations();
    add_workspace();
    add_communication();
    add_batches();
    add_copies();
    if (config_.metrics.validate_every == 0 && config_.metrics.sample_every == 0)
      out_.used[static_cast<std::size_t>(MemoryPhase::validation)] = {};
    return out_;
  }

 private:
  void add(MemoryClass use, std::size_t bytes, unsigned phases) {
    const auto c = static_cast<std::size_t>(use);
    const auto amount = static_cast<std::int64_t>(bytes);
    out_.held[c] += amount;
    for (std::size_t p = 0; p < memory_phases; ++p)
      if (((phases >> p) & 1U) != 0) out_.used[p][c] += amount;
  }

  // Weights, gradients and the optimizer's state. What is offloaded of them: the state,
  // and with the weights their shares; what is gathered is on the device. What is on a
  // disk takes no memory but that of windows.
  void add_store() {
    const optim::ParameterStore::PassingBytes passing = store_.passing_bytes();
    std::size_t weights = store_.weight_bytes() - passing.weights;
    if (config_.parallel.offload == optim::Offload::weights) {
      std::int64_t elements = 0;
      for (const optim::FlatParameter& flat : store_.flats())
        elements += flat.shard_elements();
      const std::size_t shares = static_cast<std::size_t>(elements) *
                                 size_of(store_.config().type(TensorClass::weight));
      weights -= shares;
      add(MemoryClass::offloaded, shares, always);
    }
    if (engine_.base()) weights += engine_.base()->code_bytes();
    add(MemoryClass::weights, weights, always);
    add(MemoryClass::weights, passing.weights, in_forward);
    add(MemoryClass::gradients, store_.gradient_bytes() - passing.gradients, in_step);
    add(MemoryClass::gradients, passing.gradients, in_compute);
    std::size_t optimizer = store_.optimizer_bytes();
    if (config_.parallel.offload != optim::Offload::none) {
      const std::size_t resident = store_.resident_optimizer_bytes();
      add(MemoryClass::offloaded,
          std::exchange(optimizer, resident) - resident - store_.memory().disk_bytes(),
          always);
    }
    add(MemoryClass::optimizer, optimizer, always);
    // Reads of weights from a disk are forward's and backward's, the rest the update's.
    add(MemoryClass::offloaded, passing.reads, in_forward);
    add(MemoryClass::offloaded, store_.staged_bytes() - passing.reads,
        in_start | in_update);
  }

  void add_activations() {
    const std::size_t evaluated = engine_.executor().demand().evaluation.activations;
    add(MemoryClass::activations, evaluated, in_forward);
    add(MemoryClass::activations, engine_.activation_bytes() - evaluated, in_compute);
    add(MemoryClass::offloaded, engine_.offloaded_activation_bytes(), in_compute);
  }

  void add_workspace() {
    const std::size_t scratch = engine_.executor().demand().scratch,
                      evaluated = engine_.executor().demand().evaluation.scratch,
                      store = store_.workspace_bytes(),
                      update = store_.passing_bytes().update,
                      base = engine_.base() ? engine_.base()->working_bytes() : 0;
    add(MemoryClass::workspace, evaluated, in_forward);
    add(MemoryClass::workspace, scratch - evaluated, in_compute);
    add(MemoryClass::workspace, store - update, in_step);
    add(MemoryClass::workspace, update, in_update);
    add(MemoryClass::workspace, base, in_forward);
    add(MemoryClass::workspace, engine_.workspace_bytes() - scratch - store - base,
        always);
    out_.kernel_bytes = engine_.kernel_bytes();
    add(MemoryClass::workspace, static_cast<std::size_t>(out_.kernel_bytes), always);
  }

  void add_communication() {
    std::size_t staging = 0;
    for (const comm::Group* group : mesh_.groups()) staging += group->staging_bytes();
    add(MemoryClass::communication, staging, always & ~in_checkpoint);
    add(MemoryClass::communication, store_.communication_bytes(), in_compute);
    const std::size_t received = engine_.executor().bytes().received_gradients;
    add(MemoryClass::communication, received, in_compute);
    add(MemoryClass::communication, engine_.communication_bytes() - received, in_forward);
    add(MemoryClass::communication, engine_.totals().bytes(), in_step);
  }

  void add_batches() {
    const auto positions = static_cast<std::int64_t>(engine_.positions().size());
    config::RunConfig training = config_;
    training.metrics.validate_every = training.metrics.sample_every = 0;
    const std::int64_t own = engine::batch_bytes(training, positions);
    add(MemoryClass::data, static_cast<std::size_t>(own), in_loop);
    add(MemoryClass::data,
        static_cast<std::size_t>(engine::batch_bytes(config_, positions) - own),
        in_validation);
  }

  // What goes into a checkpoint is copied where training does not wait for its files.
  void add_copies() {
    const int snapshots =
        (config_.checkpoint.async ? 1 : 0) + (config_.checkpoint.partner > 0 ? 1 : 0);
    if (snapshots == 0) return;
    const auto boxes = engine::checkpoint_boxes(engine_, mesh_);
    add(MemoryClass::offloaded,
        static_cast<std::size_t>(snapshots * io::CheckpointSnapshot::bytes_for(boxes)),
        in_loop);
    if (config_.checkpoint.partner > 0) out_.copies_bytes = io::copies_bytes(boxes);
  }

  engine::Engine& engine_;
  optim::ParameterStore& store_;
  comm::Mesh& mesh_;
  const config::RunConfig& config_;
  HeldMemory out_;
};

std::int64_t sum_of(const ClassBytes& bytes, std::span<const MemoryClass> classes) {
  std::int64_t sum = 0;
  for (const MemoryClass c : classes) sum += bytes[static_cast<std::size_t>(c)];
  return sum;
}

}  // namespace

std::string_view name_of(MemoryPhase phase) {
  constexpr std::array<std::string_view, memory_phases> names = {
      "start", "forward, backward", "update", "validation", "checkpoint"};
  return names[static_cast<std::size_t>(phase)];
}

HeldMemory held_memory(engine::Engine& engine, comm::Mesh& mesh,
                       const config::RunConfig& config) {
  return Parts(engine, mesh, config).sum();
}

MemoryPhase peak_phase(const PhaseBytes& used, std::span<const MemoryClass> classes) {
  std::size_t peak = 0;
  for (std::size_t p = 1; p < used.size(); ++p)
    if (sum_of(used[p], classes) > sum_of(used[peak], classes)) peak = p;
  return static_cast<MemoryPhase>(peak);
}

std::string phase_table(const ClassBytes& held, const PhaseBytes& used,
                        std::span<const MemoryClass> classes, std::size_t indent) {
  const MemoryPhase peak = peak_phase(used, classes);
  std::vector<const ClassBytes*> columns = {&held};
  std::vector<TextRow> rows = {{"class", "held"}};
  for (std::size_t p = 0; p < used.size(); ++p) {
    const auto phase = static_cast<MemoryPhase>(p);
    if (sum_of(used[p], classes) == 0) continue;
    columns.push_back(&used[p]);
    rows[0].push_back(format("{}{}", name_of(phase), phase == peak ? " (peak)" : ""));
  }
  const auto text_of = [](std::int64_t bytes) {
    return bytes == 0 ? std::string("-") : human_bytes(static_cast<double>(bytes));
  };
  for (const MemoryClass c : classes) {
    if (held[static_cast<std::size_t>(c)] == 0) continue;
    TextRow& row = rows.emplace_back(TextRow{std::string(name_of(c))});
    for (const ClassBytes* column : columns)
      row.push_back(text_of((*column)[static_cast<std::size_t>(c)]));
  }
  TextRow& all = rows.emplace_back(TextRow{"in all"});
  for (const ClassBytes* column : columns)
    all.push_back(text_of(sum_of(*column, classes)));
  return text_table(rows, 1, indent);
}

}  // namespace trireme::plan
