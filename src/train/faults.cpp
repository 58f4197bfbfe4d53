// Faults: how each kind of debug.fault is injected.
// SPDX-License-Identifier: Apache-2.0
#include "train/faults.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <utility>

#include "base/device_memory.hpp"
#include "base/log.hpp"
#include "engine/checkpoint_boxes.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::train {
namespace {

using config::FaultKind;

// Makes the first element of a tensor NaN.
void poison(const TensorView& x) {
  Stream stream(x.device());
  const TensorView flat = x.reshape({x.elements()});
  kernels::fill(stream, flat.rows(0, 1), std::numeric_limits<double>::quiet_NaN());
}

// Flips a bit of the first element; numbers are little-endian.
void flip(const TensorView& x, FaultKind which) {
  const TensorView one = x.reshape({x.elements()}).rows(0, 1);
  std::array<unsigned char, 8> bytes{};
  const TensorView copy(bytes.data(), one.dtype(), one.shape());
  Stream stream(x.device());
  copy_bytes(stream, one, copy);
  stream.synchronize();
  const std::size_t last = size_of(one.dtype()) - 1;
  if (which == FaultKind::flip_sign) {
    bytes[last] ^= 0x80;
  } else if (which == FaultKind::flip_exponent) {
    bytes[last] ^= 0x40;
  } else {
    bytes[0] ^= 0x01;
  }
  copy_bytes(stream, copy, one);
  stream.synchronize();
}

// Whether it was a kind that ends or stops the process.
bool stops_process(const config::Fault& fault) {
  switch (fault.kind) {
    case FaultKind::throw_error: fail(Status::internal, "injected fault");
    case FaultKind::exit: ::_exit(3);
    case FaultKind::kill: ::kill(::getpid(), SIGKILL); return true;
    case FaultKind::stop: ::kill(::getpid(), SIGSTOP); return true;
    case FaultKind::hang:
      while (true) ::usleep(100000);
    default: return false;
  }
}

// Whether it is in what a step computed.
bool changes_numbers(FaultKind kind) {
  return kind == FaultKind::nan_loss || kind == FaultKind::nan_gradient ||
         kind == FaultKind::spike;
}

void tell(const config::Fault& fault) {
  log::error(format("debug.fault: {} on rank {} before step {}", name_of(fault.kind),
                    fault.rank, fault.step));
}

}  // namespace

void Faults::at_start(const std::string& text, int rank) {
  const auto fault = config::parse_fault(text);
  if (!fault || fault->rank != rank || fault->step > 0) return;
  tell(*fault);
  stops_process(*fault);
}

Faults::Faults(const std::string& text, int rank, engine::Engine& engine,
               comm::Mesh& mesh, std::function<void(config::FaultKind)> in_saves)
    : fault_(config::parse_fault(text)),
      engine_(engine),
      mesh_(mesh),
      in_saves_(std::move(in_saves)) {
  if (fault_ && changes_numbers(fault_->kind)) changed_step_ = fault_->step;
  if (fault_ && fault_->rank != rank) fault_.reset();
}

std::optional<kernels::StepLimits> Faults::limits(std::int64_t step) {
  if (changed_step_ > 0 && step == changed_step_) return std::nullopt;
  return kernels::StepLimits{};
}

void Faults::before_reference(std::int64_t round) const {
  if (!due(round) || fault_->kind != FaultKind::kill_reference) return;
  tell(*fault_);
  ::kill(::getpid(), SIGKILL);
}

void Faults::before_step(std::int64_t step) {
  if (!due(step) || fault_->kind == FaultKind::kill_reference) return;
  tell(*fault_);
  if (stops_process(*fault_)) return;
  switch (fault_->kind) {
    case FaultKind::slow_copy:
    case FaultKind::hang_disk: in_saves_(fault_->kind); break;
    case FaultKind::nan: poison(engine_.store().params().back()->value); break;
    case FaultKind::flip_sign:
    case FaultKind::flip_exponent:
    case FaultKind::flip_mantissa:
    case FaultKind::flip_moment: flip_bit(); break;
    case FaultKind::nan_loss:
    case FaultKind::nan_gradient:
    case FaultKind::spike:
    case FaultKind::flip_gradient:
    case FaultKind::slow:  // in what the step computes
    default: break;
  }
}

void Faults::flip_bit() {
  const char* section =
      fault_->kind == FaultKind::flip_moment ? "optimizer/moment1/" : "model/";
  for (const auto& box : engine::checkpoint_boxes(engine_, mesh_)) {
    if (!box.path.starts_with(section)) continue;
    return flip(box.data, fault_->kind);
  }
}

void Faults::enter(engine::StepPhase phase, std::int64_t step) {
  step_ = step;
  if (!fault_ || fault_->kind != FaultKind::slow || step < fault_->step) return;
  if (phase == engine::StepPhase::compute) ::usleep(200000);
}

void Faults::computed(engine::StepTotals::Outcome& mine) {
  if (!due(step_)) return;
  if (fault_->kind == FaultKind::nan_loss)
    mine.loss = std::numeric_limits<double>::quiet_NaN();
  if (fault_->kind == FaultKind::spike) mine.loss *= 1000;
  if (fault_->kind == FaultKind::nan_gradient) engine_.store().inject_nan_gradient();
}

}  // namespace trireme::train
