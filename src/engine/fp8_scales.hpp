// Fp8Scales: scales of FP8 that follow the magnitudes of the whole tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "engine/rank_model.hpp"

namespace trireme::engine {

// Delayed scaling; nothing where no layer has it.
class Fp8Scales {
 public:
  // The mesh and the model outlive this.
  Fp8Scales(comm::Mesh& mesh, RankModel& model, Device device);

  // The magnitudes of the step's microbatches come to the host, which does not wait.
  void bring();
  // Once the device has come so far: those of the global batch become part of each
  // layer's history, and the scales of the next step are on their way. Collective over
  // the mesh.
  void finish_step();
  // The scales follow a state that was loaded.
  void refresh();
  std::size_t bytes() const { return amaxes_.bytes(); }

 private:
  // What chunks with a history have, and their part of the magnitudes.
  using Body = std::function<void(nn::Fp8State&, const TensorView& amax_N)>;
  void for_each(const Body& body);

  comm::Mesh& mesh_;
  RankModel& model_;
  Device device_;
  Buffer amaxes_;  // on the host, pinned beside a GPU: f32, of all chunks
};

}  // namespace trireme::engine
