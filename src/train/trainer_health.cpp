// Trainer: whether a step is sound, and whether replicas agree; faults injected for
// tests.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <map>
#include <sstream>

#include "base/device_memory.hpp"
#include "base/log.hpp"
#include "base/number.hpp"
#include "comm/position.hpp"
#include "engine/whole_tensors.hpp"
#include "kernels/elementwise.hpp"
#include "train/replica_check.hpp"
#include "train/trainer.hpp"

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

// Makes the first element of a tensor NaN.
void poison(const TensorView& x) {
  Stream stream(x.device());
  const TensorView flat = x.reshape({x.elements()});
  kernels::fill(stream, flat.rows(0, 1), std::numeric_limits<double>::quiet_NaN());
}

// Flips a bit of the first element; numbers are little-endian.
void flip(const TensorView& x, const std::string& which) {
  const TensorView one = x.reshape({x.elements()}).rows(0, 1);
  std::array<unsigned char, 8> bytes{};
  const TensorView copy(bytes.data(), one.dtype(), one.shape());
  Stream stream(x.device());
  copy_bytes(stream, one, copy);
  stream.synchronize();
  const std::size_t last = size_of(one.dtype()) - 1;
  if (which == "sign") bytes[last] ^= 0x80;
  if (which == "exponent") bytes[last] ^= 0x40;
  if (which == "mantissa") bytes[0] ^= 0x01;
  copy_bytes(stream, copy, one);
  stream.synchronize();
}

}  // namespace

// Whether the step may be used. Every rank sees the same loss and norm and decides alike;
// own_loss is this rank's part of the sum.
bool Trainer::step_is_sound(double loss, double own_loss, double norm) {
  const auto judgement = guard_.judge(step_ + 1, loss, norm);
  skipped_ = judgement.verdict != StepGuard::Verdict::sound;
  if (!skipped_) return true;
  // Memory that changed by itself would explain it better.
  if (config_.health.check_replicas_every > 0)
    check_replicas(world_, replicated_boxes(), step_);
  const std::string what =
      format("step {}: {}{}", step_ + 1, judgement.reason, find_culprits(own_loss));
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
std::string Trainer::find_culprits(double own_loss) {
  std::string mine = std::isfinite(own_loss) ? "ok\t" : "bad\t";
  for (const auto& box : engine_->store().gradient_boxes()) {
    if (is_finite(box.data)) continue;
    mine += box.slab->tensor;
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
  const std::int64_t first = step_ * config_.batch.global;
  return world_.broadcast(out + format("; samples {} to {} of the order", first,
                                       first + config_.batch.global - 1));
}

// What a checkpoint holds, and the weights in use where they are a copy of their own.
std::vector<io::TensorBox> Trainer::replicated_boxes() {
  auto boxes = this->boxes();
  const auto& store = engine_->store().config();
  const DType weight = store.type(TensorClass::weight);
  if (store.sharding == optim::Sharding::weights || weight != store.module_type() ||
      weight == store.type(TensorClass::master))
    return boxes;
  for (const Param* param : engine_->store().params()) {
    if (param->value.empty()) continue;
    std::string name = "in use/" + param->name;
    for (const Slab& slab : param->slabs)
      name += format(" {}{}", slab.tensor, slab.global_begin);
    boxes.push_back({name, param->shape, Shape{0}, param->value, false});
  }
  return boxes;
}

void Trainer::compare_replicas() {
  const std::int64_t every = config_.health.check_replicas_every;
  if (every > 0 && step_ % every == 0) check_replicas(world_, replicated_boxes(), step_);
}

// The kind of the fault that is due on this rank in this step, or "".
std::string Trainer::due_fault() const {
  if (config_.debug.fault.empty()) return {};
  std::string kind, step, rank;
  std::istringstream text(config_.debug.fault);
  std::getline(text, kind, '@');
  std::getline(text, step, '@');
  std::getline(text, rank);
  const bool due = parse_number<std::int64_t>(step) == step_ + 1 &&
                   parse_number<int>(rank) == world_.rank();
  return due ? kind : "";
}

void Trainer::inject_fault() {
  const std::string kind = due_fault();
  if (kind.empty()) return;
  log::error(format("debug.fault: {} on rank {} before step {}", kind, world_.rank(),
                    step_ + 1));
  if (kind == "throw") fail(Status::internal, "injected fault");
  if (kind == "exit") ::_exit(3);
  if (kind == "kill") ::kill(::getpid(), SIGKILL);
  if (kind == "stop") ::kill(::getpid(), SIGSTOP);
  while (kind == "hang") ::usleep(100000);
  if (kind == "slow_copy") saver_->slow_copies();
  if (kind == "nan") poison(engine_->store().params().back()->value);
  if (!kind.starts_with("flip_")) return;
  const std::string which = kind.substr(5);
  const char* section = which == "moment" ? "optimizer/moment1/" : "model/";
  for (const auto& box : boxes()) {
    if (!box.path.starts_with(section)) continue;
    return flip(box.data, which == "moment" ? "mantissa" : which);
  }
}

// Faults in what a step has computed.
void Trainer::inject_fault(double& loss) {
  const std::string kind = due_fault();
  if (kind == "nan_loss") loss = std::numeric_limits<double>::quiet_NaN();
  if (kind == "spike") loss *= 1000;
  if (kind == "nan_gradient") engine_->store().spoil_gradients();
}

}  // namespace trireme::train
