// DeviceDecision: a step that the GPU judges, so that the host reads of it at its end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/memory.hpp"
#include "comm/mesh.hpp"
#include "config/run_config.hpp"
#include "kernels/step_decision.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::engine {

// Whether steps of this deck may be judged by the GPU. Not where the host must know loss
// or norm before the update: for spikes, which it measures by steps before; for the loss
// scale of fp16; for experts, whose loads it sums; for an update that it takes part in.
// Nor where tensors of GPUs come together by way of the host, nor with more than 256
// ranks, whose rows would pass by every GPU. Alike on all ranks.
bool decides_on_device(const config::RunConfig& config, const optim::StoreConfig& store,
                       const comm::Mesh& mesh, Device device);

// What ranks add up of a step lies on the GPU, is put together there, and comes to the
// host when that waits for the end of the step. The sums are those of StepTotals, in its
// order: the bits are the same.
class DeviceDecision {
 public:
  // The mesh outlives this.
  DeviceDecision(const config::RunConfig& config, comm::Mesh& mesh, Device device);

  // Queues the decision behind the step's gradients, which are whole. loss_1: the sum of
  // this rank's losses, f64 [1]; items: what it is divided by. Collective over the mesh.
  void decide(Stream& stream, const TensorView& loss_1, optim::ParameterStore& store,
              double items, const kernels::StepLimits& limits);
  // f64, see kernels::decide_step().
  const TensorView& decision() const { return decision_.view(); }
  // Queues the way to the host.
  void bring(Stream& stream);

  // Once the stream has come to the end of bring(). On meta zeros, and sound.
  double own_loss() const { return number(0); }  // this rank's sum
  double own_squares() const { return number(1); }
  double loss() const { return number(row_values + kernels::decided_loss); }
  double norm() const { return number(row_values + kernels::decided_norm); }
  bool is_sound() const;
  // Throws Error(corruption) unless the host makes the same of the same numbers, to the
  // bit.
  void compare(std::int64_t step, double loss, double norm) const;

  std::size_t bytes() const { return rows_.bytes() + decision_.bytes() + host_.bytes(); }

 private:
  static constexpr std::int64_t row_values = 2;
  TensorView row() const;
  double number(std::int64_t i) const;

  comm::Mesh& mesh_;
  double clip_;
  Buffer rows_;      // f64 [ranks, 2]: loss and squares
  Buffer decision_;  // f64 [decision_values]
  Buffer host_;      // pinned: this rank's row, then the decision
};

}  // namespace trireme::engine
