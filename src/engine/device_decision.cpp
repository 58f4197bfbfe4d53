// DeviceDecision: its memory, and what is queued for it.
// SPDX-License-Identifier: Apache-2.0
#include "engine/device_decision.hpp"

#include <bit>
#include <cmath>

#include "base/device_memory.hpp"
#include "base/error.hpp"
#include "engine/planned_device.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::engine {
namespace {

constexpr auto use = MemoryClass::communication;

// The rows of all ranks come to each GPU by one all-gather, along a ring. With more ranks
// that takes longer than the host does, whose reduction goes along a tree.
constexpr int most_ranks = 256;

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

}  // namespace

bool decides_on_device(const config::RunConfig& config, const optim::StoreConfig& store,
                       const comm::Mesh& mesh, Device device) {
  const bool by_queue =
      mesh.transport() == comm::Transport::nccl || mesh.shape().size() == 1;
  return for_gpu(mesh, device) && by_queue && mesh.shape().size() <= most_ranks &&
         store.updates_by_device() && config.precision.compute != DType::f16 &&
         !config.model.has_experts() && !config.optimizer.outer.on() &&
         config.health.steps.spike == config::StepRules::Reaction::off;
}

DeviceDecision::DeviceDecision(const config::RunConfig& config, comm::Mesh& mesh,
                               Device device)
    : mesh_(mesh),
      clip_(config.optimizer.clip),
      rows_(device, DType::f64, {mesh.shape().size(), row_values}, use,
            "losses and squares"),
      decision_(device, DType::f64, {kernels::decision_values}, use, "decision"),
      host_(device.is_cuda()
                ? Buffer::pinned(DType::f64, {row_values + kernels::decision_values}, use,
                                 "decision (pinned)")
                : Buffer(device, DType::f64, {row_values + kernels::decision_values}, use,
                         "decision (pinned)")) {}

TensorView DeviceDecision::row() const { return rows_.view().rows(mesh_.rank(), 1); }

void DeviceDecision::decide(Stream& stream, const TensorView& loss_1,
                            optim::ParameterStore& store, double items,
                            const kernels::StepLimits& limits) {
  const TensorView mine = row().reshape({row_values});
  kernels::copy(stream, loss_1, mine.rows(0, 1));
  kernels::fill(stream, mine.rows(1, 1), 0.0);
  store.gradient_squares(mine.rows(1, 1));
  mesh_.everyone().all_gather(stream, row(), rows_.view()).wait();
  const comm::MeshShape& shape = mesh_.shape();
  kernels::decide_step(stream,
                       {.items = items,
                        .clip = clip_,
                        .limits = limits,
                        .in_stage = shape.size() / shape.pipeline,
                        .tensor = shape.tensor},
                       rows_.view(), decision_.view());
}

void DeviceDecision::bring(Stream& stream) {
  const TensorView& host = host_.view();
  copy_bytes_later(stream, row().reshape({row_values}), host.rows(0, row_values));
  copy_bytes_later(stream, decision_.view(),
                   host.rows(row_values, kernels::decision_values));
}

double DeviceDecision::number(std::int64_t i) const {
  return host_.view().device().is_meta() ? 0.0 : host_.view().data<double>()[i];
}

bool DeviceDecision::is_sound() const {
  return host_.view().device().is_meta() ||
         number(row_values + kernels::decided_sound) != 0;
}

void DeviceDecision::compare(std::int64_t step, double loss, double norm) const {
  require(
      host_.view().device().is_meta() ||
          (same_bits(loss, this->loss()) && same_bits(norm, this->norm())),
      Status::corruption,
      "step {}: the GPU of rank {} has made a loss of {} and a gradient norm of {} of "
      "the same numbers of which the host makes {} and {}: one of them computes "
      "wrongly; take the node out",
      step, mesh_.rank(), this->loss(), this->norm(), loss, norm);
}

}  // namespace trireme::engine
