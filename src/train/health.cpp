// Health: judging steps and comparing replicas.
// SPDX-License-Identifier: Apache-2.0
#include "train/health.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/device_memory.hpp"
#include "base/log.hpp"
#include "base/number.hpp"
#include "comm/rank_status.hpp"
#include "engine/checkpoint_boxes.hpp"
#include "io/metrics.hpp"
#include "train/replica_check.hpp"
#include "train/rerun_check.hpp"

namespace trireme::train {
namespace {

template <class T>
bool all_finite(const TensorView& x) {
  for (const T value : x.span<T>())
    if (!std::isfinite(value)) return false;
  return true;
}

// Gradients are f32 or f64.
bool is_finite(const TensorView& gradient) {
  Buffer copy(Device::host(), gradient.dtype(), gradient.shape(), MemoryClass::workspace,
              "gradient in doubt");
  Stream stream(gradient.device());
  copy_bytes(stream, gradient, copy.view());
  stream.synchronize();
  return gradient.dtype() == DType::f64 ? all_finite<double>(copy.view())
                                        : all_finite<float>(copy.view());
}

}  // namespace

Health::Health(comm::World& world, comm::Mesh& mesh, const config::RunConfig& config,
               engine::Engine& engine, comm::Watchdog& watchdog, const Progress& progress)
    : world_(world),
      mesh_(mesh),
      config_(config),
      engine_(engine),
      watchdog_(watchdog),
      progress_(progress),
      guard_(config.health.steps) {
  if (config.health.check_replicas_every > 0 && !has_replicas())
    log::warn(
        "health.check_replicas_every = {}: each rank alone holds its part of the "
        "weights, so that none are compared{}",
        config.health.check_replicas_every,
        mesh.device().is_host() && !config.precision.error_feedback
            ? format(": health.rerun_every = {} compares two runs of a step",
                     config.health.check_replicas_every)
            : std::string());
}

// Whether this rank holds a weight that another one holds, too.
bool Health::has_replicas() {
  const bool whole = config_.parallel.sharding != optim::Sharding::weights;
  const auto& params = engine_.store().params();
  return (whole ? mesh_.replicas() : mesh_.copies()).size() > 1 ||
         mesh_.group(comm::Axis::tensor).size() > 1 ||
         std::ranges::any_of(params, &Param::in_embedding_group);
}

// Judgements of a resumed run are those of an unbroken one only if the file has its
// steps.
void Health::warn_of_missing_steps(const std::string& path,
                                   const std::vector<io::StepLine>& steps) const {
  using Reaction = config::StepRules::Reaction;
  const config::StepRules& rules = config_.health.steps;
  const std::int64_t last = steps.empty() ? 0 : steps.back().step;
  const bool remembers = rules.spike != Reaction::off || rules.nan == Reaction::skip;
  std::int64_t trained = progress_.own_steps;
  while (trained > 0 && config_.passes_over(trained)) --trained;
  if (!remembers || last >= trained) return;
  log::warn(
      "{}: has {}, but the run resumes at step {}: {} without the steps that are "
      "missing, so that it may judge otherwise than an unbroken run; put the file back "
      "if there is a copy",
      path, last == 0 ? std::string("no steps") : format("steps up to {}", last),
      progress_.own_steps,
      rules.spike != Reaction::off ? "health.spike begins" : "health.skip_limit counts");
}

void Health::remember_steps() {
  std::string text;
  world_.agree([&] {
    if (world_.rank() != 0 || progress_.own_steps == 0) return;
    const std::string path = config_.run.directory + "/metrics.jsonl";
    const auto steps = io::read_steps(path, progress_.own_steps, guard_.memory());
    warn_of_missing_steps(path, steps);
    for (const auto& s : steps)
      text += format("{} {} {} {}\n", s.step, exact(s.loss), exact(s.grad_norm),
                     s.skipped ? 1 : 0);
  });
  std::istringstream lines(world_.broadcast(text));
  std::string step, loss, norm, skipped;  // streams do not read "nan" nor 1e-310
  while (lines >> step >> loss >> norm >> skipped)
    guard_.remember(parse_number<std::int64_t>(step).value(),
                    parse_number<double>(loss).value(),
                    parse_number<double>(norm).value(), skipped == "1");
}

// The first step of a start sets up what later ones find: it may take longer.
void Health::beat(const char* phase) {
  if (progress_.step == progress_.first_step)
    watchdog_.beat_slow(phase, progress_.step);
  else
    watchdog_.beat(phase, progress_.step);
}

bool Health::runs_twice(std::int64_t step) {
  const std::int64_t every = config_.health.rerun_every;
  return every > 0 && step % every == 0;
}

// Overflows of fp16 are usual, and no fault of anybody. What error feedback carries over
// is no longer what the first run began with.
bool Health::doubts(const engine::StepResult& result) {
  const bool is_finite =
      std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
  return config_.health.rerun && !config_.precision.error_feedback &&
         (is_finite || !engine_.scaler()) &&
         !guard_.is_sound(result.loss, result.gradient_norm);
}

void Health::ran_twice(std::int64_t step, const engine::StepDifference& difference) {
  check_reruns(world_, mesh_, step, difference);
  same_twice_ = step;
}

bool Health::accepts(const engine::StepResult& result, double own_loss) {
  const auto judgement = guard_.judge(result.step, result.loss, result.gradient_norm);
  if (judgement.verdict == StepGuard::Verdict::sound) return true;
  // Memory that changed by itself would explain it better. Copies that take steps by
  // themselves are not alike here.
  if (config_.health.check_replicas_every > 0 && !config_.optimizer.outer.on())
    train::check_replicas(world_, mesh_, replicated_boxes(), progress_.step);
  const std::string what = format(
      "step {}: {}{}{}", result.step, judgement.reason, find_culprits(own_loss),
      same_twice_ == result.step ? "; a second run gave the same bits, so that it "
                                   "is the data or the weights, not a passing fault"
                                 : "");
  if (judgement.verdict == StepGuard::Verdict::skip) {
    log::warn("{}; the update is skipped", what);
    return false;
  }
  throw comm::Agreed(Status::diverged,
                     what +
                         "; lower optimizer.learning_rate, or clip, and resume from "
                         "the last checkpoint");
}

// "; not finite: the loss of rank 1; the gradient of lm_head.weight on ranks 0, 1;
// samples 12 to 15": of all ranks, for an unsound step. Collective over the world.
std::string Health::find_culprits(double own_loss) {
  std::string mine = std::isfinite(own_loss) ? "ok\t" : "bad\t";
  for (const auto& box : engine_.store().gradient_boxes()) {
    if (is_finite(box.data)) continue;
    mine += box.named->tensor;
    break;
  }
  std::vector<int> losses;
  std::map<std::string, std::vector<int>> gradients;
  int rank = 0;
  for (const std::string& text : world_.gather_text(mine)) {
    if (text.starts_with("bad")) losses.push_back(rank);
    const std::string tensor = text.substr(text.find('\t') + 1);
    if (!tensor.empty()) gradients[tensor].push_back(rank);
    ++rank;
  }
  std::string out;
  const auto ranks = [](const std::vector<int>& some) {
    return (some.size() == 1 ? "rank " : "ranks ") + comm::ranks_text(some);
  };
  if (!losses.empty()) out += "; the loss of " + ranks(losses);
  for (const auto& [tensor, some] : gradients)
    out += format("; the gradient of {} on {}", tensor, ranks(some));
  if (!out.empty()) out = "; not finite" + out.replace(0, 1, ":");
  const config::BatchStage stage = config_.stage_of(progress_.step + 1);
  const std::int64_t first = stage.sequence_of(progress_.step + 1);
  return world_.broadcast(
      out + format("; samples {} to {} of the order", first, first + stage.global - 1));
}

// What a checkpoint holds, codes of a frozen model, and the weights in use where they are
// a copy of their own.
std::vector<io::TensorBox> Health::replicated_boxes() {
  auto boxes = engine::checkpoint_boxes(engine_, mesh_);
  if (engine_.base())
    for (auto& box : engine_.base()->boxes()) boxes.push_back(std::move(box));
  const auto& store = engine_.store().config();
  const DType weight = store.type(TensorClass::weight);
  if (store.sharding == optim::Sharding::weights || weight != store.module_type() ||
      weight == store.type(TensorClass::master))
    return boxes;
  for (const Param* param : engine_.store().params()) {
    if (param->value.empty()) continue;
    std::string name = "in use/" + param->name;
    for (const NamedBox& named : param->boxes)
      name += format(" {}{}", named.tensor, named.global_begin);
    boxes.push_back({name, param->shape, Shape{0}, param->value, false});
  }
  return boxes;
}

void Health::check_replicas(bool saves) {
  const std::int64_t every = config_.health.check_replicas_every;
  if (every > 0 && (saves || progress_.step % every == 0))
    train::check_replicas(world_, mesh_, replicated_boxes(), progress_.step);
}

}  // namespace trireme::train
