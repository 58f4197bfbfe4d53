// Estimates in closed form from the costs of layers.
// SPDX-License-Identifier: Apache-2.0
#include "plan/quick_estimate.hpp"

#include <algorithm>
#include <numeric>

#include "base/split.hpp"
#include "comm/nccl_memory.hpp"
#include "engine/group_use.hpp"
#include "plan/step_clock.hpp"
#include "schedule/stage_cut.hpp"

namespace trireme::plan {
namespace {

using schedule::ScheduleKind;

void add(LayerCost& sum, const LayerCost& one) {
  sum.forward += one.forward;
  sum.backward += one.backward;
  sum.first_saves += one.first_saves;
  sum.saved_bytes += one.saved_bytes;
  sum.parameters += one.parameters;
  sum.expert_parameters += one.expert_parameters;
  sum.largest_unit = std::max(sum.largest_unit, one.largest_unit);
}

// No more than either.
LayerCost least(const LayerCost& a, const LayerCost& b) {
  return {.forward = std::min(a.forward, b.forward),
          .backward = std::min(a.backward, b.backward),
          .first_saves = std::max(a.first_saves, b.first_saves),
          .saved_bytes = std::min(a.saved_bytes, b.saved_bytes),
          .parameters = std::min(a.parameters, b.parameters),
          .expert_parameters = std::min(a.expert_parameters, b.expert_parameters),
          .largest_unit = std::min(a.largest_unit, b.largest_unit)};
}

schedule::PipelineShape shape_of(const Candidate& c, std::int64_t microbatches) {
  return {c.schedule, c.mesh.pipeline, c.virtual_stages, microbatches};
}

double at_least_0(double value) { return std::max(0.0, value); }

// What a ring sends of a tensor, of each of n ranks.
double ring_share(int ranks) { return static_cast<double>(ranks - 1) / ranks; }

// Ranks that share out one copy of the experts, and hold the same ones.
int expert_shard(const Candidate& c) { return std::max(c.shard / c.expert, 1); }
int expert_replicas(const Candidate& c) {
  return std::max(c.mesh.data * c.mesh.context / c.expert, 1);
}

double size_of_class(const config::RunConfig& config, TensorClass what) {
  return static_cast<double>(size_of(config.precision.recipe[what].type));
}

}  // namespace

std::int64_t QuickEstimate::microbatches(const Candidate& c) const {
  return divide_up(space_.base(c).batch.global, c.micro * c.mesh.data);
}

// The work of blocks and head is counted on a model, which takes longer than an estimate.
const std::vector<Range>& QuickEstimate::cut_of(const Candidate& c) {
  const int count = c.mesh.pipeline * c.virtual_stages;
  const auto [found, made] = cuts_.try_emplace({c.grid, count});
  if (!made) return found->second;
  const config::RunConfig& base = space_.base(c);
  const bool given = space_.deck().fixed.contains("parallel.stage_layers") &&
                     std::ssize(base.parallel.stage_layers) == count;
  return found->second = schedule::cut_stages(
             base.model, count,
             given ? base.parallel.stage_layers : std::vector<std::int64_t>());
}

const std::vector<LayerCost>& QuickEstimate::stages_of(MeasuredWays::Way& way,
                                                       const Candidate& c) {
  std::vector<LayerCost>& stages = way.stages[c.mesh.pipeline * c.virtual_stages];
  if (!stages.empty()) return stages;
  const config::RunConfig& base = space_.base(c);
  const std::vector<Range>& cut = cut_of(c);
  const std::vector<LayerCost>& layers = way.costs.layers;
  for (const Range& range : cut) {
    // An end without a block counts as nothing: its cost is known with a layer's only.
    LayerCost& sum = stages.emplace_back();
    for (std::int64_t layer = range.begin; layer < range.end; ++layer) {
      const bool alone = (layer == 0 && cut.front().count() == 0) ||
                         (layer == base.model.layers - 1 && cut.back().count() == 0);
      const LayerCost& cost = layers[static_cast<std::size_t>(layer)];
      add(sum, alone ? least(cost, layers[layers.size() / 2]) : cost);
    }
  }
  return stages;
}

double QuickEstimate::nccl_bytes(const Candidate& c) {
  if (!on_.device.is_cuda() || on_.transport != comm::Transport::nccl) return 0;
  const std::vector<std::int64_t> key = {c.mesh.pipeline,
                                         c.mesh.data,
                                         c.mesh.context,
                                         c.mesh.tensor,
                                         c.shard,
                                         c.expert,
                                         static_cast<std::int64_t>(c.sharding),
                                         static_cast<std::int64_t>(c.schedule),
                                         c.virtual_stages,
                                         static_cast<std::int64_t>(c.grid)};
  const auto [found, made] = nccl_.try_emplace(key, 0);
  if (made) {
    const config::RunConfig sketch = space_.sketch(c);
    found->second = static_cast<double>(
        comm::count_nccl(c.mesh, sketch.parallel.folding, engine::group_use(sketch))
            .estimated_bytes());
  }
  return found->second;
}

const QuickEstimate::Slots& QuickEstimate::slots_of(const Candidate& c) {
  // More microbatches than fill the pipeline several times change nothing.
  std::int64_t m = microbatches(c);
  const std::int64_t p = c.mesh.pipeline;
  if (c.schedule != ScheduleKind::gpipe && m > 4 * p) m = 3 * p + m % p;
  const std::vector<std::int64_t> key = {static_cast<std::int64_t>(c.schedule), p,
                                         c.virtual_stages, m};
  const auto [found, made] = slots_.try_emplace(key);
  if (!made) return found->second;
  if (p == 1 && c.virtual_stages == 1) return found->second = {{1.0}};
  const auto shape = shape_of(c, m);
  for (const schedule::Schedule& rank : make_schedules(shape)) {
    std::vector<double>& chunks = found->second.emplace_back();
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      chunks.push_back(static_cast<double>(live_slots(rank, chunk)));
  }
  return found->second;
}

double QuickEstimate::group_seconds(const char* group, const Candidate& c, int ranks,
                                    double sent) const {
  if (ranks < 2 || sent <= 0) return 0;
  const Machine& machine = *on_.machine;
  const Placement place =
      place_group(group, c.mesh, {.shard = c.shard, .expert = c.expert}, 0,
                  static_cast<int>(machine.ranks_per_node));
  return collective_seconds(machine, place, ranks, sent);
}

// Of each step, for the mean of weights and moments of the copies at the end of a round.
double QuickEstimate::round_seconds(const Candidate& c, const LayerCost& rank) const {
  const config::RunConfig& base = space_.base(c);
  const bool shares = c.sharding != optim::Sharding::none;
  const int copies = c.mesh.data * c.mesh.context / (shares ? c.shard : 1);
  const double elements =
      (rank.parameters + rank.expert_parameters) / (shares ? c.shard : 1);
  const double kept = 1.0 + base.optimizer.rule().states();
  return group_seconds(shares ? "copies" : "replicas", c, copies,
                       2 * ring_share(copies) * elements * kept *
                           size_of_class(base, TensorClass::master)) /
         static_cast<double>(base.optimizer.outer.every);
}

// After the last microbatch: what is left of reductions, norm and update of one rank.
double QuickEstimate::ending(const Candidate& c, const LayerCosts& costs,
                             const LayerCost& rank, double hidden) const {
  const config::RunConfig& base = space_.base(c);
  const int replicas = c.mesh.data * c.mesh.context;
  const double sent = size_of_class(base, TensorClass::gradient_traffic);
  double reduce = 0;
  if (base.optimizer.outer.on()) {
    reduce = round_seconds(c, rank);
    hidden = 0;
  } else if (c.sharding < optim::Sharding::gradients) {
    const double times = c.sharding == optim::Sharding::none ? 2 : 1;
    reduce = group_seconds("replicas", c, replicas,
                           times * ring_share(replicas) * rank.parameters * sent);
    const int others = expert_replicas(c);
    reduce = std::max(reduce, group_seconds("expert replicas", c, others,
                                            times * ring_share(others) *
                                                rank.expert_parameters * sent));
  } else {
    const int copies = replicas / c.shard;
    if (copies > 1)
      reduce = group_seconds("copies", c, copies,
                             2 * ring_share(copies) * rank.parameters / c.shard * sent);
  }
  const bool shares = c.sharding != optim::Sharding::none;
  const double updated = rank.parameters / (shares ? c.shard : 1) +
                         rank.expert_parameters / (shares ? expert_shard(c) : 1);
  double host = 0;
  if (c.offload != optim::Offload::none && on_.machine->gpus)
    host = updated * (costs.gradient_bytes / on_.machine->links.host_rate +
                      2 * costs.optimizer_bytes / on_.machine->host_sweep_rate);
  return at_least_0(reduce - hidden) + updated * costs.update_seconds + host;
}

QuickEstimate::Parts QuickEstimate::parts(const Candidate& c, MeasuredWays::Way& way) {
  const LayerCosts& costs = way.costs;
  const config::RunConfig& base = space_.base(c);
  const double overlap = on_.machine->links.overlap;
  Parts out;
  const double layers_of_stage =
      static_cast<double>(base.model.layers) / (c.mesh.pipeline * c.virtual_stages);
  for (const LayerCost& stage : stages_of(way, c)) {
    // Copies of activations to the host and back move beside kernels, one after another;
    // two blocks' lag behind.
    const double away =
        at_least_0(1 - kept_share(c, layers_of_stage) - 2 / layers_of_stage) *
        stage.saved_bytes / on_.machine->links.host_rate;
    const double forward = std::max(stage.forward, away);
    double backward = std::max(stage.backward, away);
    // Weights that are gathered, gradients that are scattered, for each microbatch, as
    // far as all of its kernels cannot hide them. The units that forward used last are
    // not gathered again, nor is an embedding.
    const auto share = [&](double parameters, TensorClass what) {
      return group_seconds("shards", c, c.shard,
                           ring_share(c.shard) * parameters * size_of_class(base, what));
    };
    if (c.sharding >= optim::Sharding::gradients) {
      double messages = share(stage.parameters, TensorClass::gradient_traffic);
      if (c.sharding == optim::Sharding::weights)
        messages += share(stage.parameters, TensorClass::weight_traffic) +
                    share(at_least_0(stage.parameters - 2 * stage.largest_unit),
                          TensorClass::weight_traffic);
      backward += at_least_0(messages - forward - backward);
      // A unit's gradient starts from zero for each microbatch, and is added to a share.
      backward += stage.parameters * costs.gradient_bytes * (1 + 1.0 / c.shard) /
                  on_.machine->sweep_rate;
    }
    const double weight =
        halves_backward(c.schedule) ? ways_.halves_of(c, way).weight_share : 0;
    out.stages.push_back(
        {forward, backward * (1 - weight), backward * weight, stage.saved_bytes});
  }
  const auto shape = shape_of(c, microbatches(c));
  for (int rank = 0; rank < c.mesh.pipeline; ++rank) {
    LayerCost sum;
    double seconds = 0;
    for (int chunk = 0; chunk < c.virtual_stages; ++chunk) {
      const auto s = static_cast<std::size_t>(stage_of(shape, rank, chunk));
      add(sum, stages_of(way, c)[s]);
      seconds += out.stages[s].forward + out.stages[s].backward_input +
                 out.stages[s].backward_weight;
    }
    out.rank_seconds.push_back(seconds);
    if (rank == 0 || sum.first_saves < out.first_saves) out.first_saves = sum.first_saves;
    out.ending = std::max(out.ending, ending(c, costs, sum, overlap * sum.backward));
  }
  if (c.mesh.pipeline > 1) {
    const StepClock clock(*on_.machine, c.mesh, {}, 0);
    out.message = clock.stage_message_seconds(costs.boundary_bytes);
  }
  return out;
}

std::optional<Estimate> QuickEstimate::estimate(const Candidate& c) {
  if (!ways_.allows(c)) return std::nullopt;
  MeasuredWays::Way& way = ways_.way_of(c);
  const Parts parts = this->parts(c, way);
  const auto m = static_cast<double>(microbatches(c));
  const bool v_shaped = schedule::is_v_shaped(c.schedule);
  double fill = 0, longest = 0;
  for (int rank = 0; rank < c.mesh.pipeline; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    longest = std::max(longest, fill + m * parts.rank_seconds[r]);
    // Before the next rank's first microbatch, and after its last one.
    fill += parts.stages[r].forward + parts.message;
    if (!v_shaped) fill += parts.stages[r].backward_input + parts.message;
    if (c.schedule == ScheduleKind::zb_h1)
      fill -= std::min(parts.stages[r].backward_input, parts.stages[r].backward_weight);
  }
  return Estimate{longest - parts.first_saves + parts.ending + on_.machine->step_seconds,
                  bytes(c, way, true)};
}

std::optional<double> QuickEstimate::least_bytes(const Candidate& c) {
  if (!ways_.allows(c)) return std::nullopt;
  return bytes(c, ways_.way_of(c), false);
}

double QuickEstimate::simulated_seconds(const Candidate& c) {
  const Parts parts = this->parts(c, ways_.way_of(c));
  schedule::SimulationOptions options;
  options.stages = parts.stages;
  options.latency = parts.message;
  const auto shape = shape_of(c, microbatches(c));
  return simulate(shape, make_schedules(shape), options).total - parts.first_saves +
         parts.ending + on_.machine->step_seconds;
}

// Of activations: what cannot be away from a GPU (on a CPU nothing is).
double QuickEstimate::kept_share(const Candidate& c, double layers_of_stage) const {
  const config::ParallelSettings& parallel = space_.base(c).parallel;
  if (!c.offloads_activations || !on_.device.is_cuda()) return 1;
  return at_least_0(1 - parallel.offload_activations_fraction - 1 / layers_of_stage);
}

// Of the rank that holds most; without buffers of messages.
double QuickEstimate::bytes(const Candidate& c, MeasuredWays::Way& way,
                            bool with_halves) {
  const LayerCosts& costs = way.costs;
  const std::vector<LayerCost>& stages = stages_of(way, c);
  const Slots& slots = slots_of(c);
  const auto shape = shape_of(c, 1);
  const double layers_of_stage = static_cast<double>(space_.base(c).model.layers) /
                                 static_cast<double>(stages.size());
  // DualPipe-V halves few backwards, and few microbatches leave none to put off.
  const bool defers = with_halves && halves_backward(c.schedule) &&
                      microbatches(c) > c.mesh.pipeline &&
                      c.schedule != ScheduleKind::dualpipe_v;
  const double deferred =
      defers ? layers_of_stage * ways_.halves_of(c, way).saved_bytes : 0;
  double most = 0;
  for (int rank = 0; rank < c.mesh.pipeline; ++rank) {
    LayerCost sum;
    double saved = 0;
    for (int chunk = 0; chunk < c.virtual_stages; ++chunk) {
      const LayerCost& stage =
          stages[static_cast<std::size_t>(stage_of(shape, rank, chunk))];
      add(sum, stage);
      saved += (stage.saved_bytes + deferred) *
               slots[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
    }
    const double all = sum.parameters + sum.expert_parameters;
    const double shared =
        sum.parameters / c.shard + sum.expert_parameters / expert_shard(c);
    const auto held = [&](optim::Sharding from) {
      return c.sharding >= from ? shared : all;
    };
    double bytes = saved * kept_share(c, layers_of_stage) + costs.working_bytes;
    const double away =
        c.offload == optim::Offload::none ? 0 : space_.base(c).parallel.offload_fraction;
    bytes += (optim::moves_weights(c.offload) ? 1 - away : 1) *
             held(optim::Sharding::weights) * costs.weight_bytes;
    bytes += held(optim::Sharding::gradients) * costs.gradient_bytes;
    bytes += (1 - away) * held(optim::Sharding::optimizer) * costs.optimizer_bytes;
    // A unit's gradient, and the units that are gathered: one in use, one ahead.
    if (c.sharding >= optim::Sharding::gradients)
      bytes += sum.largest_unit * costs.gradient_bytes;
    if (c.sharding == optim::Sharding::weights)
      bytes += 2 * sum.largest_unit * costs.weight_bytes;
    most = std::max(most, bytes);
  }
  return most + nccl_bytes(c);
}

}  // namespace trireme::plan
