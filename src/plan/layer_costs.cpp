// Costs of layers: an engine with a stage for each layer, on meta.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layer_costs.hpp"

#include <numeric>
#include <set>

#include "kernels/runtime/profile.hpp"
#include "plan/kept_layers.hpp"
#include "plan/meta_step.hpp"
#include "plan/step_clock.hpp"
#include "schedule/stage_cut.hpp"

namespace trireme::plan {
namespace {

// Two microbatches of a job that has a single pipeline rank with a stage for each layer
// of those that are kept.
config::RunConfig layer_deck(const config::RunConfig& config,
                             const std::vector<std::int64_t>& kept) {
  config::RunConfig deck = config;
  keep_layers(deck, kept);
  const int context = config.parallel.mesh.context;
  const int expert = config.parallel.folding.expert;
  const int data = expert / std::gcd(expert, context);
  deck.parallel.mesh = {.pipeline = 1,
                        .data = data,
                        .context = context,
                        .tensor = config.parallel.mesh.tensor};
  deck.parallel.folding = {.shard = 1, .expert = expert};
  deck.parallel.sharding = optim::Sharding::none;
  deck.parallel.offload = optim::Offload::none;
  deck.parallel.offload_activations = false;
  deck.parallel.wrap_parameters = 0;
  deck.parallel.wrap_names.clear();
  deck.parallel.stage_layers.clear();
  deck.batch.global = 2 * deck.batch.micro * data;
  deck.batch.ramp.clear();
  deck.run.cuda_graphs = false;
  const auto layers = static_cast<int>(deck.model.layers);
  deck.parallel.virtual_stages = layers;
  deck.parallel.schedule = layers > 1 ? schedule::ScheduleKind::interleaved
                                      : schedule::ScheduleKind::one_f_one_b;
  return deck;
}

void count_parameters(engine::Engine& engine, std::vector<LayerCost>& layers) {
  std::set<const Param*> seen;
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const ParamModule& module : engine.stage(static_cast<int>(i)).modules()) {
      double unit = 0;
      for (const Param* param : module.params) {
        const auto elements = static_cast<double>(param->shape.elements());
        if (!seen.insert(param).second) continue;
        (param->expert ? layers[i].expert_parameters : layers[i].parameters) += elements;
        if (!param->expert) unit += elements;
      }
      layers[i].largest_unit = std::max(layers[i].largest_unit, unit);
    }
}

void add_times(engine::Engine& engine, std::vector<LayerCost>& layers) {
  const std::vector<double>& seconds = engine.executor().times().action_seconds();
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const schedule::Action& action = engine.schedule()[i];
    LayerCost& layer = layers[static_cast<std::size_t>(action.chunk)];
    const bool first = action.microbatch == 0;
    layer.first_saves -= first ? seconds[i] : -seconds[i];
    if (first) continue;
    (action.kind == schedule::ActionKind::forward ? layer.forward : layer.backward) +=
        seconds[i];
  }
}

// How long norm and update take, without messages.
class UpdateWatch final : public engine::StepObserver {
 public:
  explicit UpdateWatch(const StepClock& clock) : clock_(clock) {}
  void enter(engine::StepPhase phase, std::int64_t) override {
    const double now = clock_.seconds() - clock_.spent().waiting;
    if (phase == engine::StepPhase::update) begin_ = now;
    if (phase == engine::StepPhase::finished) seconds_ = now - begin_;
  }
  double seconds() const { return seconds_; }

 private:
  const StepClock& clock_;
  double begin_ = 0, seconds_ = 0;
};

}  // namespace

LayerCosts measure_layers(const config::RunConfig& config, const PlannedDevice& on) {
  const kernels::ProfilePause pause;
  const KeptLayers kept = ends_and_kinds(config);
  const config::RunConfig deck = known_on(on, layer_deck(config, kept.layers));
  comm::Mesh mesh = comm::Mesh::meta(deck.parallel.mesh, 0, deck.parallel.folding,
                                     on.device, on.transport);
  engine::Engine engine(deck, mesh, Device::meta());
  StepClock clock(*on.machine, mesh.shape(), mesh.folding(), 0);
  UpdateWatch watch(clock);
  {
    const WorkMeterInUse in_use(clock);
    run_meta_step(engine, deck, watch);
  }
  LayerCosts costs;
  std::vector<LayerCost> layers(kept.layers.size());
  add_times(engine, layers);
  count_parameters(engine, layers);
  double elements = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerCost& layer = layers[i];
    layer.saved_bytes = static_cast<double>(engine.executor().demand().saved[i]);
    elements += layer.parameters + layer.expert_parameters;
  }
  costs.working_bytes = static_cast<double>(
      engine.workspace_bytes() + static_cast<std::size_t>(engine.kernel_bytes()) +
      engine.executor().demand().recomputed);
  costs.boundary_bytes = static_cast<double>(engine.activation_shape().elements()) *
                         static_cast<double>(size_of(
                             deck.precision.recipe[TensorClass::pipeline_traffic].type));
  const auto of_element = [&](std::size_t bytes) {
    return static_cast<double>(bytes) / elements;
  };
  costs.weight_bytes = of_element(engine.store().weight_bytes());
  costs.gradient_bytes = of_element(engine.store().gradient_bytes());
  costs.optimizer_bytes = of_element(engine.store().optimizer_bytes());
  costs.update_seconds = watch.seconds() / elements;
  for (const std::size_t place : kept.place) costs.layers.push_back(layers[place]);
  return costs;
}

namespace {

// Bytes that a microbatch keeps in each chunk, and the share of backward's second halves.
struct ChunkBytes {
  std::vector<std::size_t> saved;
  double weight_share = 0;
};
ChunkBytes run_chunks(const config::RunConfig& deck, const PlannedDevice& on) {
  const kernels::ProfilePause pause;
  comm::Mesh mesh = comm::Mesh::meta(deck.parallel.mesh, 0, deck.parallel.folding,
                                     on.device, on.transport);
  engine::Engine engine(deck, mesh, Device::meta());
  StepClock clock(*on.machine, mesh.shape(), mesh.folding(), 0);
  {
    const WorkMeterInUse in_use(clock);
    run_meta_step(engine, deck);
  }
  double input = 0, weight = 0;
  for (std::size_t i = 0; i < engine.schedule().size(); ++i) {
    const schedule::ActionKind kind = engine.schedule()[i].kind;
    const double seconds = engine.executor().times().action_seconds()[i];
    if (kind == schedule::ActionKind::backward_input) input += seconds;
    if (kind == schedule::ActionKind::backward_weight) weight += seconds;
  }
  return {engine.executor().demand().saved, weight > 0 ? weight / (input + weight) : 0.0};
}

}  // namespace

std::vector<Range> cut_for_halves(const config::RunConfig& config) {
  config::RunConfig few = config;
  keep_layers(few, in_proportion(config));
  return schedule::cut_stages(
      few.model, static_cast<int>(std::min<std::int64_t>(few.model.layers, 2)), {});
}

HalvesCost measure_halves(const config::RunConfig& config, const std::vector<Range>& cut,
                          const LayerCosts& costs, const PlannedDevice& on) {
  const std::vector<std::int64_t> kept = in_proportion(config);
  config::RunConfig halves = known_on(on, layer_deck(config, kept));
  const auto chunks = static_cast<int>(cut.size());
  halves.parallel.virtual_stages = chunks;
  halves.parallel.schedule =
      chunks == 2 ? schedule::ScheduleKind::zb_v : schedule::ScheduleKind::zb_h1;
  // Known, or else counted on a model.
  for (const Range& chunk : cut) halves.parallel.stage_layers.push_back(chunk.count());
  const ChunkBytes split = run_chunks(halves, on);
  HalvesCost out{split.weight_share, 0};
  // Of the chunk where it is less: what embedding and head add is not every layer's.
  for (std::size_t c = 0; c < cut.size(); ++c) {
    auto bytes = static_cast<double>(split.saved[c]);
    for (std::int64_t layer = cut[c].begin; layer < cut[c].end; ++layer)
      bytes -=
          costs.layers[static_cast<std::size_t>(kept[static_cast<std::size_t>(layer)])]
              .saved_bytes;
    bytes = std::max(0.0, bytes) / static_cast<double>(cut[c].count());
    out.saved_bytes = c == 0 ? bytes : std::min(out.saved_bytes, bytes);
  }
  return out;
}

}  // namespace trireme::plan
