// The time of a step from the clocks of its stages, and what follows from it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/format.hpp"
#include "engine/run_outlook.hpp"

namespace trireme::plan {
namespace {

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Forwards and backwards of all stages, with the messages between them.
void predict_compute(Prediction& out, const config::RunConfig& config,
                     std::span<const Plan> plans) {
  if (plans.size() == 1) {
    out.idle_shares = {0};
    out.step_seconds = sum_of(plans.front().timing.action_seconds);
    return;
  }
  const schedule::PipelineShape shape = engine::pipeline_shape(config);
  schedule::SimulationOptions options;
  for (const Plan& plan : plans) {
    options.actions.push_back(plan.timing.action_seconds);
    options.latency = std::max(options.latency, plan.timing.stage_message_seconds);
  }
  const schedule::Simulation simulation =
      simulate(shape, schedule::make_schedules(shape), options);
  for (const schedule::RankSimulation& rank : simulation.ranks)
    out.idle_shares.push_back(rank.idle_share);
  out.step_seconds = simulation.total;
}

// Checkpoints and failures.
void predict_run(Prediction& out, const config::RunConfig& config,
                 std::span<const Plan> plans, const Machine& machine) {
  const auto ranks = static_cast<double>(config.parallel.mesh.size());
  const double nodes = std::ceil(ranks / static_cast<double>(machine.ranks_per_node));
  for (const Plan& plan : plans)
    out.checkpoint_bytes +=
        plan.timing.checkpoint_bytes * ranks / static_cast<double>(plans.size());
  const double writing = out.checkpoint_bytes / (nodes * machine.write_rate);
  // In the background only the copy in memory stands in the way.
  out.save_seconds = config.checkpoint.async
                         ? 2 * out.checkpoint_bytes / ranks / machine.sweep_rate
                         : writing;
  out.run_seconds = static_cast<double>(config.run.steps) * out.step_seconds;
  const double between_failures = machine.failure_hours * 3600 / ranks;
  out.failures_a_day = 86400 / between_failures;
  const double lost =
      machine.restart_seconds + out.checkpoint_bytes / (nodes * machine.read_rate);
  // The least of save / every + every / 2 / between; no more often than writing allows.
  out.best_every_seconds = std::max(
      {std::sqrt(2 * out.save_seconds * between_failures), writing, out.step_seconds});
  out.save_every_seconds =
      static_cast<double>(config.checkpoint.every) * out.step_seconds;
  const double every = out.save_every_seconds > 0
                           ? out.save_every_seconds
                           : std::max(out.run_seconds, out.step_seconds);
  const double saving =
      out.save_every_seconds > 0 ? out.save_seconds / (every + out.save_seconds) : 0;
  const double failing = (every / 2 + lost) / between_failures;
  out.goodput = (1 - saving) / (1 + failing);
}

}  // namespace

Prediction predict(const config::RunConfig& config, std::span<const Plan> plans,
                   const Machine& machine) {
  Prediction out;
  predict_compute(out, config, plans);
  double busiest = 0, round = 0;
  for (const Plan& plan : plans) {
    const Timing& timing = plan.timing;
    out.ending =
        std::max(out.ending, timing.step_seconds - sum_of(timing.action_seconds));
    out.exposed = std::max(out.exposed, timing.waiting);
    out.host = std::max(out.host, timing.host);
    round = std::max(round, timing.round_seconds);
    const double busy = timing.products + timing.attention + timing.sweeps;
    if (busy <= busiest) continue;
    busiest = busy;
    out.products = timing.products;
    out.attention = timing.attention;
    out.sweeps = timing.sweeps;
  }
  if (config.optimizer.outer.on())
    out.step_seconds += round / static_cast<double>(config.optimizer.outer.every);
  out.step_seconds += out.ending + machine.step_seconds;
  out.tokens_per_second =
      static_cast<double>(config.batch.global * config.model.sequence) / out.step_seconds;
  const double peak = machine.product_rate(config.precision.compute) *
                      static_cast<double>(config.parallel.mesh.size());
  out.mfu = plans.front().flops_per_step / out.step_seconds / peak;
  predict_run(out, config, plans, machine);
  return out;
}

std::string describe(const Prediction& p, const Machine& machine) {
  const auto percent = [](double share) { return fixed(100 * share, 1) + " %"; };
  std::string text = format("time      on {} ({})\n", machine.name, machine.source);
  text += format("step      {}: {} tokens/s, {} of the file's product rate\n",
                 human_seconds(p.step_seconds), human_count(p.tokens_per_second),
                 percent(p.mfu));
  text += format(
      "busiest   products {}, attention {}, other kernels {} a step; collectives that "
      "nothing hides {}; {} after the last backward\n",
      human_seconds(p.products), human_seconds(p.attention), human_seconds(p.sweeps),
      human_seconds(p.exposed), human_seconds(p.ending));
  if (p.host > 0)
    text += format("offload   {} of a step for copies and updates on the host\n",
                   human_seconds(p.host));
  if (p.idle_shares.size() > 1) {
    const auto [least, most] =
        std::minmax_element(p.idle_shares.begin(), p.idle_shares.end());
    text += format("idle      {} to {} of the pipeline's ranks\n", percent(*least),
                   percent(*most));
  }
  text += format("run       {} of steps\n", human_seconds(p.run_seconds));
  text += format("save      {}: training stands still for {}{}\n",
                 human_bytes(p.checkpoint_bytes), human_seconds(p.save_seconds),
                 p.save_every_seconds > 0
                     ? format(", every {}", human_seconds(p.save_every_seconds))
                     : std::string(", at the end only"));
  text += format(
      "failures  {} a day at {} hours a rank: goodput {}; saving every {} costs least\n",
      fixed(p.failures_a_day, 2), human_count(machine.failure_hours), percent(p.goodput),
      human_seconds(p.best_every_seconds));
  return text;
}

}  // namespace trireme::plan
